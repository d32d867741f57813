"""The scenarios of the experiments, for any number of nodes.

Nine nodes of ten subscribe, in six groups with different interests. Events are drawn in turn
from a short list, and publishers take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import Publish, Subscribe, Workload
from smartpubsub.workloads.crashes import with_crashes
from smartpubsub.workloads.errors import ScenarioError
from smartpubsub.workloads.options import Phases, ScenarioOptions, Setting, payload_of
from smartpubsub.workloads.power_law import power_law
from smartpubsub.workloads.small import small
from smartpubsub.workloads.subreddits import subreddits

EVERYONE_WANTS = Predicate.parse("ipfs")
GROUPS_WANT = tuple(
    Predicate.parse(text)
    for text in (
        "portugal/surf",
        "portugal/soccer",
        "surf/bali",
        "surf/bali/trip/price[1000,1500]",
        "surf/trip/price[1000,2000]",
        "surf/trip/price[1000,1400]",
    )
)
EVENTS_SAY = tuple(
    Predicate.parse(text)
    for text in (
        "portugal/surf",
        "portugal/soccer",
        "surf/bali",
        "surf/bali/trip/price=1200",
        "surf/trip/price=1800",
        "surf/trip/price=1300",
        "ipfs",
    )
)
PACE_US = 100_000
BURST_US = 10_000
STAGES = 4
LARGE_NETWORK_NODES = 1_000
LARGE_NETWORK_PUBLISHERS_MAX = 100


def scenario(
    name: str, *, keys: Sequence[int], seed: int, options: ScenarioOptions | None = None
) -> Workload:
    """A scenario for the nodes that have these Kademlia keys.

    >>> len(scenario("normal", keys=range(60), seed=1).phases[1])
    6
    """
    options = options or ScenarioOptions()
    if name not in SCENARIOS:
        raise ScenarioError(f"no scenario {name!r}; choose one of {', '.join(SCENARIOS)}")
    nodes = len(keys)
    if nodes == 0:
        raise ScenarioError("a scenario needs at least one node")
    if (options.publishers or 1) > nodes:
        raise ScenarioError(
            f"{options.publishers} publishers among {nodes} nodes; take fewer publishers"
        )
    phases = SCENARIOS[name](Setting(nodes, Random(f"{seed}/workload/{name}"), options))
    if options.faults and name != "small":
        rng = Random(f"{seed}/crashes/{name}")
        phases = with_crashes(phases, keys, faults=options.faults, crash=options.crash, rng=rng)
    return Workload(
        names=tuple(f"n{number}" for number in range(1, nodes + 1)),
        phases=tuple(tuple(phase) for phase in phases if phase),
        pace_us=options.pace_us or 0,
    )


def _normal(setting: Setting) -> Phases:
    nodes, _, options = setting
    publishers = _publishers(nodes, options)
    return _subscriptions(nodes), _events(publishers, options.events or len(publishers), options)


def _sub_burst(setting: Setting) -> Phases:
    subscriptions, events = _normal(setting)
    subscribers = _subscribers(setting.nodes)
    unwanted = [
        # One subscription away from the events, one on their path.
        *((n, Predicate.of({f"unheard-{n}": True})) for n in subscribers),
        *((n, Predicate.of({"surf": True, f"unheard-{n}": True})) for n in subscribers),
    ]
    burst_us = len(events) * (setting.options.pace_us or PACE_US)
    burst = [
        Subscribe(place * burst_us // len(unwanted), node, predicate)
        for place, (node, predicate) in enumerate(unwanted)
    ]
    return subscriptions, sorted([*events, *burst], key=lambda action: action.at_us)


def _event_burst(setting: Setting) -> Phases:
    nodes, _, options = setting
    # As many nodes publish here as subscribe in other scenarios.
    count = options.publishers or len(_subscribers(nodes))
    publishers = range(nodes - count, nodes)
    events = _events(publishers, options.events or count, options)
    if options.pace_us is None:
        events = [
            event._replace(at_us=place * BURST_US // len(events))
            for place, event in enumerate(events)
        ]
    return _subscriptions(nodes), events


def _replication(setting: Setting) -> Phases:
    nodes, _, options = setting
    publishers = _publishers(nodes, options)
    count = options.events or STAGES * len(publishers)
    events = _events(publishers, count, options)
    wanted = (*GROUPS_WANT, EVERYONE_WANTS)
    phases: list[Sequence[Subscribe | Publish]] = []
    for stage in range(STAGES):
        phases.append(
            [
                Subscribe(0, node, wanted[(node % len(GROUPS_WANT) + stage) % len(wanted)])
                for node in _subscribers(nodes)
            ]
        )
        published = events[stage * count // STAGES : (stage + 1) * count // STAGES]
        phases.append(
            [event._replace(at_us=event.at_us - published[0].at_us) for event in published]
        )
    return phases


def _subscribers(nodes: int) -> range:
    return range(max(1, nodes - max(1, nodes // 10)))


def _publishers(nodes: int, options: ScenarioOptions) -> range:
    count = options.publishers or max(1, nodes // 10)
    if options.publishers is None and nodes >= LARGE_NETWORK_NODES:
        count = min(count, LARGE_NETWORK_PUBLISHERS_MAX)
    return range(nodes - count, nodes)


def _subscriptions(nodes: int) -> list[Subscribe]:
    return [
        Subscribe(0, node, predicate)
        for node in _subscribers(nodes)
        for predicate in (EVERYONE_WANTS, GROUPS_WANT[node % len(GROUPS_WANT)])
    ]


def _events(publishers: range, count: int, options: ScenarioOptions) -> list[Publish]:
    pace_us = options.pace_us or PACE_US
    return [
        Publish(
            place * pace_us,
            publishers[place % len(publishers)],
            EVENTS_SAY[place % len(EVENTS_SAY)],
            payload_of(place),
        )
        for place in range(count)
    ]


SCENARIOS: Mapping[str, Callable[[Setting], Phases]] = MappingProxyType(
    {
        "normal": _normal,
        "sub-burst": _sub_burst,
        "event-burst": _event_burst,
        # It differs from `normal` only in its crashes, which are an option of any scenario.
        "fault": _normal,
        "replication": _replication,
        "reddit": subreddits,
        "power-law": power_law,
        "small": small,
    }
)
"""The generator of each scenario."""
