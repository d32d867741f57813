"""Which way a predicate takes, held against what really happens to such an event."""

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.reports.route_chart import places_in
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.route import Route, only_subscriptions, route
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.workloads import scenario
from smartpubsub.workloads.actions import Action, Workload
from tests.sim.small import experiment_of, publish, subscribe, unsubscribe


def settled(workload: Workload, *, nodes: int, variant: str = VARIANTS[-1]) -> Experiment:
    options = RunOptions(
        protocol="scoutsubs", protocol_options=ProtocolOptions(variant=variant), nodes=nodes, seed=3
    )
    experiment = Experiment(options, workload)
    experiment.run()
    return experiment


def normal(nodes: int, *more: Action) -> Workload:
    subscriptions = only_subscriptions(scenario("normal", keys=range(nodes), seed=3))
    return Workload(names=subscriptions.names, phases=(*subscriptions.phases, more))


def route_of(experiment: Experiment, text: str, start: int | None = None) -> Route:
    return route(experiment, Predicate.parse(text), start)


@pytest.mark.parametrize("variant", VARIANTS[1::2])
def test_events_go_where_the_route_says(variant: str) -> None:
    nodes, start = 330, 9
    texts = ["surf/bali/trip/price=1200", "portugal/soccer", "ipfs", "snow"]
    events = [publish(start, text, 1000 * number) for number, text in enumerate(texts)]
    before = settled(normal(nodes), nodes=nodes, variant=variant)
    ran = settled(normal(nodes, *events), nodes=nodes, variant=variant)

    for text, id in zip(texts, ran.journal.events, strict=True):
        found = route_of(before, text, start)
        received = {f"n{d.node + 1}" for d in ran.journal.deliveries if d.id == id}
        copies = sum(count for (_, copied), count in ran.observer.copies.items() if copied == id)
        assert set(found.received_by) == set(found.wanted_by) == received
        assert sum(way.messages_down for way in found.journeys) == copies


def test_the_way_ends_at_the_rendezvous_and_each_hop_knows_the_one_below() -> None:
    experiment = settled(normal(60), nodes=60)
    found = route_of(experiment, "surf/bali")

    keys = [key_of(host.peer) for host in experiment.world.hosts]
    closest = min(range(60), key=lambda node: keys[node] ^ key_of(found.kept_under.encode()))
    assert found.stops[-1].node == found.tree.rendezvous == f"n{closest + 1}"
    assert found.stops[-1].role == "root"
    assert found.start in found.tree.subscribers
    for below, above in zip(found.stops, found.stops[1:], strict=False):
        (child,) = [child for child in above.children if child.node == below.node]
        assert child.filters == below.shows
        assert found.tree.parents[below.node] == above.node
    relay = found.stops[1]
    assert len(relay.backups) == 2
    assert all(
        attribute.key == f"{key_of(attribute.name.encode()):064x}" for attribute in found.attributes
    )


def test_a_node_outside_the_tree_has_a_way_into_it() -> None:
    found = route_of(settled(normal(60), nodes=60), "surf/bali", start=59)

    assert (found.start, found.stops[0].node, found.stops[0].role) == ("n60", "n60", None)
    assert found.stops[-1].node == found.tree.rendezvous
    assert found.journeys[0].up[0] == "n60"


def test_shortcuts_are_there_only_where_they_are_wanted() -> None:
    nodes = 330
    taken = {}
    for variant in ("base-reliable", "redirect-reliable"):
        found = route_of(settled(normal(nodes), nodes=nodes, variant=variant), "ipfs")
        (way,) = found.journeys
        assert bool(found.tree.shortcuts) == (way.shortcuts_taken > 0)
        taken[variant] = way.shortcuts_taken
    assert taken["base-reliable"] == 0 < taken["redirect-reliable"]


def test_a_network_without_subscriptions_has_routes_as_well() -> None:
    experiment = experiment_of(nodes=4, protocol="scoutsubs")
    experiment.run()
    found = route_of(experiment, "surf/price=3")

    assert (found.start, found.wanted_by, found.received_by) == ("n0", (), ())
    assert found.stops[-1].node == found.tree.rendezvous
    assert found.tree.parents == {}


def test_nodes_without_a_name_go_by_their_number() -> None:
    workload = Workload(names=("1", "ann"), phases=((subscribe(0, "surf"),),))
    found = route_of(settled(workload, nodes=4), "surf", start=3)

    assert found.start == "3"
    assert found.wanted_by == ("1",)


def test_only_the_subscriptions_that_last_are_taken() -> None:
    actions = (
        subscribe(0, "surf"),
        subscribe(1, "surf"),
        subscribe(1, "surf", 5),
        publish(2, "surf", 10),
        unsubscribe(0, "surf", 20),
        unsubscribe(1, "surf", 20),
    )
    workload = Workload(names=("a", "b", "c"), phases=(actions[:2], actions[2:]))

    assert only_subscriptions(workload).phases == ((subscribe(1, "surf"),),)
    assert only_subscriptions(workload).names == ("a", "b", "c")


def test_a_tree_is_laid_out_without_overlaps() -> None:
    parents = {"b": "a", "c": "a", "d": "b", "e": "b", "stray": "lost"}

    assert places_in("a", parents) == {
        "a": (1.25, 0),
        "b": (0.5, 1),
        "c": (2.0, 1),
        "d": (0.0, 2),
        "e": (1.0, 2),
    }
