"""The options of an experiment, as a command line or a plan gives them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.spec import DEFAULT_RESILIENCE, ProtocolOptions
from smartpubsub.seam import Peer
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.experiment import Experiment, FaultPlan
from smartpubsub.sim.experiments.pace import LARGE_NETWORK_NODES, pace_us
from smartpubsub.sim.experiments.running import Progress, RunOptions
from smartpubsub.sim.experiments.topics import with_order
from smartpubsub.sim.kernel.faults import Churn, Fault, Partition
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.population import peer_id, worked_number
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.workloads import ScenarioOptions, read_workload, scenario
from smartpubsub.workloads.actions import CrashNode, Publish, Workload
from smartpubsub.workloads.crashes import with_crashes
from smartpubsub.workloads.small import NODES as SMALL_NODES

NODES = 60
SCENARIO = "normal"
FROM_FILE = "workload"
"""The scenario's name in the result of a workload file."""
TOPICS_SCENARIO = "reddit"
SMALL = "small"
TOPICS_SCENARIOS = (TOPICS_SCENARIO, SMALL)
"""The scenarios in which all predicates are topics."""
REPLACED_SCENARIOS = ("normal", "fault")
"""In place of these, protocols with topics only run `TOPICS_SCENARIO`."""
TOPICS_EVENTS = 1_000
"""Protocols with topics only run so many events of this scenario in place of `normal`."""
PACED_SCENARIOS = {"normal": 100_000, "event-burst": 1}
"""Scenarios that are paced in large networks, and the least microseconds between events."""


PeerOf: TypeAlias = Callable[[int, int], Peer]
"""Maps a seed and the number of a node to its peer id."""


class OptionsError(SmartPubSubError, ValueError):
    """Options that contradict each other, a scenario or a workload file."""

    is_usage_error = True


class Churning(NamedTuple):
    """How nodes crash and restart."""

    up_s: float
    down_s: float
    share: float = 1.0

    def __str__(self) -> str:
        return ":".join(map(str, self))


class Cutting(NamedTuple):
    """When some nodes are cut off from the others, for how long, and how many."""

    at_s: float
    for_s: float
    share: float = 0.5

    def __str__(self) -> str:
        return ":".join(map(str, self))


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """A world, a workload and faults, without the protocol."""

    scenario: str | None = None
    events: int | None = None
    publishers: int | None = None
    workload: Path | None = None
    nodes: int | None = None
    seed: int = 1
    faults: int | None = None
    crash: Literal["before", "mid"] = "before"
    refuse: bool = False
    churn: Churning | None = None
    cut: Cutting | None = None
    ordered: bool = False
    backups: int = 2
    resilience: str = DEFAULT_RESILIENCE
    latency_ms: float = 10.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    bandwidth_bytes: int = 1 << 20
    regions: int = 0
    adversary: tuple[Adversary, ...] = ()
    id_work_bits: int = 0
    peers_per_prefix: int = 0

    @property
    def scenario_name(self) -> str:
        """The name of the scenario in results."""
        return FROM_FILE if self.workload else self.scenario or SCENARIO

    @property
    def network(self) -> NetworkOptions:
        """The network of the run."""
        return NetworkOptions(
            latency_us=round(self.latency_ms * 1000),
            jitter_us=round(self.jitter_ms * 1000),
            loss=self.loss,
            bandwidth_bytes_per_s=self.bandwidth_bytes,
            refuses_after_crash=self.refuse,
            regions=self.regions,
        )

    @property
    def crash_count(self) -> int:
        """How many nodes crash for good; in `small`, whether nodes crash and come back."""
        if self.faults is None:
            return {"fault": self.backups, SMALL: 1}.get(self.scenario_name, 0)
        return self.faults

    @property
    def node_count(self) -> int:
        """How many nodes a scenario has."""
        if self.nodes is None:
            return SMALL_NODES if self.scenario_name == SMALL else NODES
        return self.nodes

    def check(self) -> None:
        """Raise an error if options contradict each other."""
        if not self.workload:
            return
        for name in ("scenario", "events", "publishers"):
            if getattr(self, name) is not None:
                raise OptionsError(f"--{name} has no meaning beside --workload; leave one out")

    def command(self, protocol: str, variant: str = "") -> str:
        """The command that runs a protocol with these options, in its default variant if not given.

        >>> SimOptions(nodes=9).command("floodsub")
        'smartpubsub sim run --protocol floodsub --nodes 9'
        """
        words = ["smartpubsub", "sim", "run", "--protocol", protocol]
        if variant and variant != spec_of(protocol).variant(None):
            words += ["--variant", variant]
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            for one in value if type(value) is tuple else (value,):
                words.append("--" + field.name.replace("_", "-"))
                if one is not True:
                    words.append(str(one))
        return shlex.join(words)

    def load(self, protocols: Sequence[str], peer_of: PeerOf = peer_id) -> Workload:
        """The workload; in a large network, at a pace that all of these protocols sustain."""
        with_topics = next((name for name in protocols if spec_of(name).has_only_topics), None)
        if self.workload:
            workload = self._load_file(self.workload, peer_of)
            return with_order(workload) if self.ordered else workload
        nodes = self.node_count
        name, events = self.scenario_name, self.events
        if with_topics and name not in TOPICS_SCENARIOS:
            name, events = self._scenario_for(with_topics), events or TOPICS_EVENTS
        return scenario(
            name,
            keys=self._keys(nodes, peer_of),
            seed=self.seed,
            options=ScenarioOptions(
                events=events,
                publishers=self.publishers,
                faults=self.crash_count,
                crash=self.crash,
                pace_us=self._pace_us(nodes, protocols),
                ordered=self.ordered,
            ),
        )

    def _scenario_for(self, protocol: str) -> str:
        """The scenario for a protocol that knows topics only."""
        if self.scenario_name not in REPLACED_SCENARIOS:
            raise OptionsError(
                f"--scenario {self.scenario_name}: it has predicates, and {protocol} knows topics"
                f" only; take {', '.join(REPLACED_SCENARIOS + TOPICS_SCENARIOS)}"
            )
        return TOPICS_SCENARIO

    def experiment(
        self,
        protocol: str,
        variant: str,
        workload: Workload,
        *,
        trace: Trace | None = None,
        progress: Progress | None = None,
        checks_invariants: bool = False,
    ) -> Experiment:
        """A run of a protocol with the workload that was loaded, in the simulated world."""
        options = self.run_options(protocol, variant, workload)
        options = replace(options, checks_invariants=checks_invariants)
        faults = self.fault_plan(workload, options.nodes)
        return Experiment(options, workload, faults, trace=trace, progress=progress)

    def run_options(self, protocol: str, variant: str, workload: Workload) -> RunOptions:
        """The options of a run of a protocol with the workload that was loaded."""
        nodes = len(workload.names) if self.nodes is None else self.nodes
        return RunOptions(
            protocol=protocol,
            protocol_options=ProtocolOptions(
                variant=spec_of(protocol).variant(variant or None),
                backups=self.backups,
                resilience=self.resilience,
            ),
            nodes=nodes,
            seed=self.seed,
            network=self.network,
            kademlia=Settings(
                id_work_bits=self.id_work_bits, peers_per_prefix_max=self.peers_per_prefix
            ),
            peers=self.peers(nodes) if self.id_work_bits else (),
            adversaries=self.adversary,
        )

    def _load_file(self, path: Path, peer_of: PeerOf) -> Workload:
        workload = read_workload(path)
        names = len(workload.names)
        nodes = names if self.nodes is None else self.nodes
        if nodes < names:
            raise OptionsError(
                f"--nodes: {path} has {names} nodes, so there cannot be {nodes};"
                f" give {names} or more"
            )
        if not self.crash_count:
            return workload
        phases = with_crashes(
            workload.phases,
            self._keys(nodes, peer_of),
            faults=self.crash_count,
            crash=self.crash,
            rng=stream(self.seed, "crashes"),
        )
        return replace(workload, phases=tuple(map(tuple, phases)))

    def _keys(self, nodes: int, peer_of: PeerOf) -> list[int]:
        return list(map(key_of, self.peers(nodes, peer_of)))

    def peers(self, nodes: int, peer_of: PeerOf = peer_id) -> tuple[Peer, ...]:
        """The peer ids of the nodes, with the proof of work that they need."""
        seed, bits = self.seed, self.id_work_bits
        numbers = (worked_number(peer_of, seed, node, bits) for node in range(nodes))
        return tuple(peer_of(seed, number) for number in numbers)

    def _pace_us(self, nodes: int, protocols: Sequence[str]) -> int | None:
        fastest_us = PACED_SCENARIOS.get(self.scenario_name)
        if nodes < LARGE_NETWORK_NODES or fastest_us is None:
            return None
        own = scenario(
            self.scenario_name,
            keys=range(nodes),
            seed=self.seed,
            options=ScenarioOptions(events=self.events, publishers=self.publishers),
        )
        publishers = len(_nodes_that(own, Publish))
        paces = [pace_us(protocol, nodes, publishers, self.network) for protocol in protocols]
        return max(fastest_us, *paces)

    def fault_plan(self, workload: Workload, nodes: int) -> FaultPlan:
        """The faults beside those of the workload."""

        def plan(began_us: int) -> Iterator[Fault]:
            if self.churn:
                yield Churn(
                    nodes=self._churning_nodes(self.churn, workload, nodes),
                    at_us=began_us,
                    until_us=began_us + sum(phase[-1].at_us for phase in workload.phases if phase),
                    up_us_mean=round(self.churn.up_s * SECOND),
                    down_us_mean=round(self.churn.down_s * SECOND),
                    seed=self.seed,
                )
            if self.cut:
                start_us = began_us + round(self.cut.at_s * SECOND)
                group = stream(self.seed, "cut").sample(range(nodes), round(self.cut.share * nodes))
                yield Partition(
                    group=tuple(sorted(group)),
                    at_us=start_us,
                    until_us=start_us + round(self.cut.for_s * SECOND),
                )

        return plan

    def _churning_nodes(self, churn: Churning, workload: Workload, nodes: int) -> tuple[int, ...]:
        # Nodes that crash for good do not return. Publishers stay up, so that every event counts.
        crashing, publishing = (_nodes_that(workload, kind) for kind in (CrashNode, Publish))
        anyone = [node for node in range(nodes) if node not in crashing]
        others = [node for node in anyone if node not in publishing] or anyone
        chosen = stream(self.seed, "churn").sample(others, round(churn.share * len(others)))
        return tuple(sorted(chosen))


def _nodes_that(workload: Workload, *kinds: type) -> dict[int, None]:
    return {a.node: None for phase in workload.phases for a in phase if isinstance(a, kinds)}
