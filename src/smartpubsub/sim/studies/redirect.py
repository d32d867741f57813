"""The saving by shortcuts: events that few nodes want, in a large network."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging.spread import spread
from smartpubsub.sim.kernel.streams import stream
from smartpubsub.sim.studies.observed import Observed, Watch, completed, unwatched
from smartpubsub.workloads.actions import Publish, Subscribe, Workload
from smartpubsub.workloads.options import payload_of

VARIANTS = ("base-reliable", "redirect-reliable")
TOPICS = 50
SUBSCRIBERS_MAX = 2
"""The subscribers of one topic."""
EVENTS_PER_TOPIC = 4
PACE_US = 50_000


@dataclass(frozen=True, kw_only=True)
class Unpopular:
    """The result of one variant with events that few nodes want."""

    variant: str
    events: int
    delivered: int
    missing: int
    hops_mean: float
    hops_max: float
    messages_per_event: float
    """Messages about events."""
    latency_ms_mean: float
    latency_ms_p99: float
    violations: int


def study(nodes: int, seed: int, watch: Watch = unwatched) -> list[Unpopular]:
    """Run both variants with the same workload."""
    workload = rare_topics(nodes, stream(seed, "study", "redirect"))
    found = []
    for variant in VARIANTS:
        options = RunOptions(
            protocol="scoutsubs",
            protocol_options=ProtocolOptions(variant=variant),
            nodes=nodes,
            seed=seed,
        )
        with watch(f"{variant}, ") as progress:
            found.append(_unpopular(Observed(options, workload, progress=progress)))
    return found


def rare_topics(nodes: int, rng: Random) -> Workload:
    """Topics that one or two nodes anywhere subscribe to, and events from all over the network."""
    topics = [Predicate.of({f"rare-{number:02}": True}) for number in range(1, TOPICS + 1)]
    subscriptions = [
        Subscribe(0, node, topic)
        for topic in topics
        for node in rng.sample(range(nodes), rng.randint(1, min(SUBSCRIBERS_MAX, nodes)))
    ]
    events = [
        Publish(number * PACE_US, rng.randrange(nodes), topics[number % TOPICS], payload_of(number))
        for number in range(TOPICS * EVENTS_PER_TOPIC)
    ]
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    return Workload(names=names, phases=(tuple(subscriptions), tuple(events)))


def _unpopular(run: Observed) -> Unpopular:
    result = completed(run, "rare topics")
    publishing = run.phases[1]
    deliveries = run.deliveries_in(publishing)
    hops = spread([delivery.hops for delivery in deliveries], "mean", "max")
    latency = spread(run.latencies_ms(deliveries), "mean", "p99")
    return Unpopular(
        variant=run.options.protocol_options.variant,
        events=result.verdict.injected,
        delivered=result.verdict.delivered,
        missing=result.verdict.missing,
        hops_mean=hops["mean"],
        hops_max=hops["max"],
        messages_per_event=round(publishing.event_messages / result.verdict.injected, 3),
        latency_ms_mean=latency["mean"],
        latency_ms_p99=latency["p99"],
        violations=len(result.violations),
    )
