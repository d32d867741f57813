"""An experiment that records the cost of each phase of its workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.scoutsubs.spec import is_event_traffic, retransmission_count
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.sim.judging import result as results
from smartpubsub.sim.judging.journal import DeliveryRecord, SubscriptionRecord
from smartpubsub.sim.judging.result import Result, first_deliveries
from smartpubsub.sim.kernel.world import Host
from smartpubsub.workloads.actions import Action, Workload

PHASE_SETTLES_US = SECOND
"""How long a phase goes on after its last acknowledgement, so that it includes its confirmations.
"""

Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""From the title of a run to the progress that shows it."""


def unwatched(_title: str) -> AbstractContextManager[Progress]:
    """Show no progress."""
    return nullcontext(Progress())


@dataclass(slots=True)
class Phase:
    """The cost of one phase of a workload."""

    start_us: int
    end_us: int = 0
    messages: int = 0
    sent_bytes: int = 0
    event_messages: int = 0
    """Messages about events."""
    resends: int = 0
    """Retransmissions of events on their way down."""


class Observed(Experiment):
    """An experiment with figures of its phases."""

    def __init__(
        self,
        options: RunOptions,
        workload: Workload,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.phases: list[Phase] = []
        super().__init__(options, workload, progress=progress)

    def _run_phase(self, phase: Iterable[Action]) -> None:
        hosts = self.world.hosts
        messages = sum(host.sent_count for host in hosts)
        sent_bytes = sum(host.sent_bytes for host in hosts)
        noted = Phase(self.world.now)
        self.phases.append(noted)
        super()._run_phase(phase)
        self._run(self.world.now + PHASE_SETTLES_US)
        noted.end_us = self.world.now
        noted.messages = sum(host.sent_count for host in hosts) - messages
        noted.sent_bytes = sum(host.sent_bytes for host in hosts) - sent_bytes
        self.phase_is_over()

    def phase_is_over(self) -> None:
        """Called between phases; a study that inspects the nodes overrides it."""

    def _on_receive(self, host: Host, peer: bytes, message: object) -> None:
        super()._on_receive(host, peer, message)
        if self.phases:
            noted = self.phases[-1]
            noted.event_messages += is_event_traffic(message)
            noted.resends += retransmission_count(message)

    def deliveries_in(self, phase: Phase) -> list[DeliveryRecord]:
        """The first deliveries of a phase's events to subscriptions that were in force by then."""
        return [
            delivery
            for delivery in first_deliveries(self.journal.deliveries)
            if phase.start_us <= (called_us := self._called_us(delivery)) < phase.end_us
            and any(
                subscription.is_in_force(called_us)
                for subscription in self._subscriptions_of(delivery)
            )
        ]

    def is_stale(self, delivery: DeliveryRecord) -> bool:
        """Whether an event is older than all the subscriptions that it was delivered to."""
        return self._called_us(delivery) < min(
            w.called_us for w in self._subscriptions_of(delivery)
        )

    def _subscriptions_of(self, delivery: DeliveryRecord) -> list[SubscriptionRecord]:
        return [self.journal.subscriptions[delivery.node, n] for n in delivery.subscriptions]

    def _called_us(self, delivery: DeliveryRecord) -> int:
        return self.journal.events[delivery.id].called_us

    def latencies_ms(self, deliveries: Iterable[DeliveryRecord]) -> list[float]:
        """How long events took."""
        return [(d.at_us - self._called_us(d)) / 1000 for d in deliveries]


def completed(experiment: Experiment, scenario: str) -> Result:
    """Run an experiment to its end; Ctrl-C ends the whole study."""
    result = results.run(experiment, scenario)
    if experiment.was_interrupted:
        raise KeyboardInterrupt
    return result
