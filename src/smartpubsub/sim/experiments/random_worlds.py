"""Random worlds: a network, a workload and faults, all from one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging.oracle import REFRESH_US
from smartpubsub.sim.kernel.faults import (
    Churn,
    ClockJump,
    Clog,
    Crash,
    Fault,
    Partition,
    Pause,
    Skew,
    Slow,
)
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import peer_id
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.workloads import ScenarioOptions, scenario
from smartpubsub.workloads.actions import Action, LeaveNode, Publish, RestartNode, Workload

NODE_RANGES = ((5, 10), (11, 25), (26, 60))
NODE_RANGE_WEIGHTS = (60, 30, 10)
"""Most bugs show in small worlds, and small worlds are quick."""
FAULTS_MAX = 5
SCENARIOS = ("power-law", "power-law", "power-law", "normal", "sub-burst", "event-burst")
TOPICS_SCENARIO = "reddit"
ORDERED_SHARE = 0.5
"""The share of the worlds with topics in which topics keep the order of their events."""
SPLIT_SHARE = 0.15
"""The share of worlds in which the network splits.

Events around a split may get lost, so these worlds test little until they have healed."""
HEALED_US = REFRESH_US + 2 * MINUTE
"""How long after the other events the last ones come: all splits ended a refresh cycle before."""

RENEWALS_US = (REFRESH_US, REFRESH_US, REFRESH_US // 3)
"""How often filters, memberships and advertisements are renewed."""
FAN_OUTS = (4, 4, 2, 0)
PIECES_BYTES = (512 << 10, 512 << 10, 100)
"""The size from which messages are sent in fragments."""
HISTORIES_US = (0, MINUTE, REFRESH_US)
"""How long events are kept for later subscribers; that must change nothing else."""
HEATS = (50, 5, 1)
"""How many copies of events a second make a rendezvous split its attribute."""
REFUSING_SHARE = 0.3
"""The share of worlds in which the machines of crashed nodes refuse connections."""
LEAVING_SHARE = 0.25
"""The share of worlds in which a node says goodbye, leaves and comes back."""
ENCODED_SHARE = 0.25
"""The share of the small worlds in which messages are encoded and decoded, which takes time."""

AMONG_EVENTS_SHARE = 0.75
"""The share of the worlds with topics in which faults fall among the events.

In the others, they fall on the creation of topics and on the first subscriptions."""

LONG_SHARE = 0.15
"""The share of worlds with a pause of minutes, and of worlds with a clock jump."""
STOPPED_US = (MINUTE, 150 * SECOND)
"""Shorter than the time that a run waits for missing events."""
SKEW_US_MAX = MINUTE
JUMP_US_MAX = 60 * MINUTE
"""Smaller for a protocol that allows less, so that a jump and a skew together are allowed."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RandomWorld:
    """The world of a seed."""

    options: RunOptions
    scenario: str
    workload: Workload
    splits: bool
    has_long_faults: bool = False
    """Whether there may be pauses of minutes and clock jumps."""
    fault_phase: int = 0
    """The phase of the workload with which the time of faults begins."""

    def among(self, adversaries: tuple[Adversary, ...], resilience: str) -> RandomWorld:
        """The same world with adversaries, and with nodes of this resilience."""
        chosen = replace(self.options.protocol_options, resilience=resilience)
        liar_count_max = spec_of(self.options.protocol).liar_count_max(chosen, self.options.nodes)
        options = replace(
            self.options,
            adversaries=adversaries,
            protocol_options=chosen,
            liar_count_max=liar_count_max,
        )
        return replace(self, options=options)

    def faults(self, began_us: int) -> list[Fault]:
        """The faults, from when the workload begins, or its phase `fault_phase`."""
        rng = stream(self.options.seed, "fuzz", "faults")
        phase = self.fault_phase
        phases = self.workload.phases[phase : phase + 1] if phase else self.workload.phases[:2]
        end_us = began_us + sum(phase[-1].at_us for phase in phases) + 2 * SECOND
        draw = _FaultDraw(rng, self.options, began_us, end_us)
        faults = [*draw.faults(), *([draw.partition()] if self.splits else [])]
        if self.has_long_faults:
            faults += draw.long_faults(stream(self.options.seed, "fuzz", "long faults"))
        return faults


def random_world(
    seed: int, protocol: str, *, has_long_faults: bool = False, may_fail_late: bool = False
) -> RandomWorld:
    """The world of a seed, the same for all protocols that know predicates.

    Long faults are added to the others: without them, the world of a seed is unchanged. With
    `may_fail_late`, faults of most worlds with topics come among the events.
    """
    rng = stream(seed, "fuzz", "world")
    nodes = rng.randint(*rng.choices(NODE_RANGES, NODE_RANGE_WEIGHTS)[0])
    network = _network(rng)
    name = rng.choice(SCENARIOS)
    spec = spec_of(protocol)
    if spec.has_only_topics:
        name = TOPICS_SCENARIO
    workload = scenario(
        name,
        keys=[key_of(peer_id(seed, number)) for number in range(nodes)],
        seed=seed,
        options=ScenarioOptions(
            events=rng.randint(1, 80),
            pace_us=rng.choice((None, 1_000, 20_000, 200_000)),
            ordered=stream(seed, "fuzz", "ordered").random() < ORDERED_SHARE,
        ),
    )
    splits = rng.random() < SPLIT_SHARE
    if splits:
        workload = _with_events_after_healing(workload)
    variant = stream(seed, "fuzz", "variant").choice(spec.variants or ("",))
    backups = rng.randint(0, 4)
    workload = _with_departures(seed, workload, failing_nodes(seed, nodes, backups))
    # From its own random stream, so that further draws do not change the draws above.
    rng = stream(seed, "fuzz", "more")
    length_us = sum(phase[-1].at_us for phase in workload.phases[:2])
    is_late = stream(seed, "fuzz", "late").random() < AMONG_EVENTS_SHARE
    is_late = is_late and may_fail_late and spec.has_only_topics
    newcomers = _sometimes(rng, lambda: rng.randint(1, 3), 0)
    renew_us = rng.choice(RENEWALS_US)
    # Drawn for every protocol, so that all get the same world, also one without these settings.
    settings: dict[str, int] = {
        "fan_out_max": rng.choice(FAN_OUTS),
        "piece_bytes_max": rng.choice(PIECES_BYTES),
        "history_us_max": stream(seed, "fuzz", "history").choice(HISTORIES_US),
        "hot_copies_per_s": stream(seed, "fuzz", "heat").choice(HEATS),
    }
    return RandomWorld(
        options=RunOptions(
            protocol=protocol,
            protocol_options=ProtocolOptions(
                variant=variant,
                backups=backups,
                renew_us=renew_us,
                overrides={n: v for n, v in settings.items() if n in spec.fuzzed_settings},
            ),
            nodes=nodes,
            seed=seed,
            network=replace(
                network,
                refuses_after_crash=stream(seed, "fuzz", "refusal").random() < REFUSING_SHARE,
            ),
            started_before=_sometimes(rng, lambda: rng.randint(1, 5), 0),
            newcomers_us=tuple(rng.randint(0, length_us) for _ in range(newcomers)),
            is_encoded=nodes <= NODE_RANGES[0][1] and rng.random() < ENCODED_SHARE,
        ),
        scenario=name,
        workload=workload,
        splits=splits,
        has_long_faults=has_long_faults,
        fault_phase=_publishing_phase(workload) if is_late else 0,
    )


def _publishing_phase(workload: Workload) -> int:
    is_publishing = [any(isinstance(a, Publish) for a in phase) for phase in workload.phases]
    return is_publishing.index(True)


def _network(rng: Random) -> NetworkOptions:
    latency_us = round(1_000 * 200 ** rng.random())
    return NetworkOptions(
        latency_us=latency_us,
        jitter_us=_sometimes(rng, lambda: rng.randint(1, 2 * latency_us), 0),
        loss=_sometimes(rng, lambda: 0.2 * rng.random() ** 2, 0.0),
        duplication=_sometimes(rng, lambda: 0.2 * rng.random(), 0.0),
        reordering=rng.random() < 0.3,
        bandwidth_bytes_per_s=_sometimes(rng, lambda: round(50_000 * 200 ** rng.random()), 1 << 20),
    )


def _sometimes(rng: Random, draw: Callable[[], T], otherwise: T) -> T:
    return draw() if rng.random() < 0.4 else otherwise


def _with_events_after_healing(workload: Workload) -> Workload:
    events = [action for action in workload.actions() if isinstance(action, Publish)]
    late = tuple(event._replace(at_us=HEALED_US + event.at_us) for event in events)
    return replace(workload, phases=(*workload.phases, late))


def failing_nodes(seed: int, nodes: int, backups: int) -> list[int]:
    """The nodes that crash, pause or leave: as many as `backups`, so that delivery is promised."""
    return stream(seed, "fuzz", "faults").sample(range(nodes), backups)


def _with_departures(seed: int, workload: Workload, leaving: Sequence[int]) -> Workload:
    """Add nodes that leave and return while events are published."""
    rng = stream(seed, "fuzz", "departures")
    if not leaving or rng.random() >= LEAVING_SHARE:
        return workload
    place = _publishing_phase(workload)
    events = workload.phases[place]
    actions: list[Action] = list(events)
    for node in rng.sample(leaving, rng.randint(1, len(leaving))):
        at_us = rng.randint(0, events[-1].at_us)
        actions.append(LeaveNode(at_us, node))
        actions.append(RestartNode(at_us + round(10_000 * 6_000 ** rng.random()), node))
    actions.sort(key=lambda action: action.at_us)
    before, after = workload.phases[:place], workload.phases[place + 1 :]
    return replace(workload, phases=(*before, tuple(actions), *after))


class _FaultDraw:
    def __init__(self, rng: Random, options: RunOptions, begin_us: int, end_us: int) -> None:
        self._rng = rng
        self._nodes = options.nodes
        self._protocol = options.protocol
        self._failing = rng.sample(range(options.nodes), options.protocol_options.backups)
        self._begin_us = begin_us
        self._end_us = end_us

    def faults(self) -> list[Fault]:
        kinds = [self._slow, self._skew, self._clog]
        if self._failing:
            kinds += [self._crash, self._crash, self._pause, self._churn]
        count = max(0, self._rng.randint(-2, FAULTS_MAX))
        return [self._rng.choice(kinds)() for _ in range(count)]

    def long_faults(self, rng: Random) -> list[Fault]:
        """Pauses of minutes and clock jumps, which are rare."""
        faults: list[Fault] = []
        if self._failing and rng.random() < LONG_SHARE:
            at_us = rng.randint(self._begin_us, self._end_us)
            until_us = at_us + rng.randint(*STOPPED_US)
            faults.append(Pause(node=rng.choice(self._failing), at_us=at_us, until_us=until_us))
        if self._failing and rng.random() < LONG_SHARE:
            at_us = rng.randint(self._begin_us, self._end_us)
            allowed_us = spec_of(self._protocol).clock_skew_us_max
            far_us = JUMP_US_MAX if allowed_us is None else allowed_us // 2 - SKEW_US_MAX
            jump = ClockJump(
                node=rng.choice(self._failing),
                at_us=at_us,
                restart_at_us=at_us + rng.randint(SECOND // 10, 20 * SECOND),
                skew_us=rng.randint(-far_us, far_us),
            )
            faults.append(jump)
        return faults

    def _node(self) -> int:
        return self._rng.randrange(self._nodes)

    def _times(self) -> tuple[int, int]:
        start = self._rng.randint(self._begin_us, self._end_us)
        return start, start + round(10_000 * 6_000 ** self._rng.random())

    def _crash(self) -> Fault:
        at_us, restart_at_us = self._times()
        returns = self._rng.random() < 0.7
        return Crash(
            node=self._rng.choice(self._failing),
            at_us=at_us,
            restart_at_us=restart_at_us if returns else None,
        )

    def _pause(self) -> Fault:
        at_us, until_us = self._times()
        return Pause(node=self._rng.choice(self._failing), at_us=at_us, until_us=until_us)

    def _slow(self) -> Fault:
        at_us, until_us = self._times()
        factor = self._rng.randint(2, 20)
        return Slow(node=self._node(), at_us=at_us, until_us=until_us, factor=factor)

    def _skew(self) -> Fault:
        return Skew(
            node=self._node(),
            skew_us=self._rng.randint(-SKEW_US_MAX, SKEW_US_MAX),
            drift_ppm=self._rng.randint(-1_000, 1_000),
        )

    def partition(self) -> Fault:
        at_us, until_us = self._times()
        group = self._rng.sample(range(self._nodes), self._rng.randint(1, self._nodes // 2))
        one_way = self._rng.random() < 0.3
        return Partition(group=tuple(group), at_us=at_us, until_us=until_us, one_way=one_way)

    def _clog(self) -> Fault:
        at_us, until_us = self._times()
        sender, receiver = self._rng.sample(range(self._nodes), 2)
        return Clog(sender=sender, receiver=receiver, at_us=at_us, until_us=until_us)

    def _churn(self) -> Fault:
        return Churn(
            nodes=tuple(self._failing),
            at_us=self._begin_us,
            until_us=self._end_us,
            up_us_mean=self._rng.randint(SECOND, 20 * SECOND),
            down_us_mean=self._rng.randint(SECOND // 10, 10 * SECOND),
            seed=self._rng.getrandbits(32),
        )
