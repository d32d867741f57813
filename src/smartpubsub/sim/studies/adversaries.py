"""The effect of lying nodes: how many owed events honest nodes get, when, and at what cost.

All protocols get the same attacks in the same world, and a run without an attack beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.registry import protocol_names
from smartpubsub.protocols.spec import RESILIENCES
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import facts_of
from smartpubsub.sim.judging.verdict import expected_waits_us
from smartpubsub.sim.studies.observed import Watch, completed, unwatched

ATTACKS: tuple[Adversary | None, ...] = (
    None,
    Adversary("drop", 0.05),
    Adversary("drop", 0.1),
    Adversary("drop", 0.2),
    Adversary("drop", 0.3),
    Adversary("drop-half", 0.2),
    Adversary("censor", 0.2),
    Adversary("flash", 0.2),
    Adversary("forge-ack", 0.2),
    Adversary("forge", 0.2),
    Adversary("eclipse", 0.2),
    Adversary("route-poison", 0.2),
    Adversary("surround", 100),
    Adversary("sybil", 20),
    Adversary("flap", 0.05),
    Adversary("flood", 0.05),
    Adversary("broad", 0.05),
)
"""The attacks; None for a run in which all nodes are honest."""
WITHIN_S = (10, 30, 60)
RESILIENCE_COUNTS = {"scoutsubs": 3, "fastdelivery": 2, "pulsarcast": 2}
"""How many resiliences a protocol distinguishes; other protocols have one."""


@dataclass(frozen=True, kw_only=True)
class Withstood:
    """The result of a protocol under an attack."""

    protocol: str
    resilience: str
    attack: str
    adversaries: int
    expected: int
    share_within_10_s: float
    share_within_30_s: float
    share_within_60_s: float
    share: float
    acknowledged: float
    """The acknowledged share of the events."""
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    """The latency of the expected deliveries; None if so many never came."""
    messages: int
    bytes: int
    forged: int
    """Wrong deliveries: unexpected ones and repetitions."""
    convicted: int
    convicted_honest: int
    """How many nodes were convicted, and how many of them are honest."""
    violations: int


def study(
    nodes: int,
    seed: int,
    events: int,
    attacks: Sequence[Adversary | None] = ATTACKS,
    protocols: Sequence[str] = (),
    resiliences: Sequence[str] = RESILIENCES,
    watch: Watch = unwatched,
) -> list[Withstood]:
    """Run every protocol under every attack, in each of these resiliences that it has."""
    found = []
    for protocol in protocols or protocol_names():
        differing = RESILIENCES[: RESILIENCE_COUNTS.get(protocol, 1)]
        for resilience in [one for one in differing if one in resiliences]:
            for attack in attacks:
                with watch(f"{protocol} {resilience}, {attack or 'no attack'}, ") as progress:
                    options = SimOptions(
                        nodes=nodes,
                        seed=seed,
                        events=events,
                        resilience=resilience,
                        adversary=(attack,) if attack else (),
                    )
                    workload = options.load([protocol])
                    experiment = options.experiment(protocol, "", workload, progress=progress)
                    result = completed(experiment, options.scenario_name)
                waits_us = list(expected_waits_us(facts_of(experiment)))
                verdict, traffic = result.verdict, experiment.traffic()
                within = [_share(waits_us, seconds * SECOND) for seconds in WITHIN_S]
                found.append(
                    Withstood(
                        protocol=protocol,
                        resilience=resilience,
                        attack=str(attack or "none"),
                        adversaries=len(experiment.crowd.by_node),
                        expected=verdict.expected,
                        share_within_10_s=within[0],
                        share_within_30_s=within[1],
                        share_within_60_s=within[2],
                        share=verdict.coverage_injected,
                        acknowledged=verdict.published / max(1, verdict.injected),
                        latency_ms_p50=verdict.delivered_within_ms["p50"],
                        latency_ms_p99=verdict.delivered_within_ms["p99"],
                        messages=sum(node.sent for node in traffic),
                        bytes=sum(node.sent_bytes for node in traffic),
                        forged=verdict.unexpected + verdict.app_duplicates,
                        convicted=sum(experiment.convicted_counts.values()),
                        convicted_honest=experiment.convicted_honest,
                        violations=len(result.violations),
                    )
                )
    return found


def _share(waits_us: Sequence[float], most_us: int) -> float:
    return sum(us <= most_us for us in waits_us) / len(waits_us) if waits_us else 1.0
