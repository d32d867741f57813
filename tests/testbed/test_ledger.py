"""The notes of nodes become the records of a run."""

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.pubsub import Subscription, Unsubscribed
from smartpubsub.sim.experiments.calls import Call
from smartpubsub.sim.judging.observer import Observer
from smartpubsub.sim.traces.trace import Trace
from smartpubsub.testbed.ledger import Ledger
from smartpubsub.testbed.messages import Delivered, Note

SURF = Predicate.parse("surf")


def test_deliveries_of_hostile_nodes_are_not_judged() -> None:
    observer = Observer(Trace(), lambda _: 0)
    ledger = Ledger(observer, 2, hostile={1: None})
    for node in (0, 1):
        for what in ("subscribe", "unsubscribe"):
            ledger.enter(Note(1, node, Call(what, 1, SURF)))
        ledger.enter(Note(2, node, Delivered(0, Unsubscribed(Subscription(1, SURF)))))

    (record,) = observer.journal.subscriptions.values()
    assert (record.node, record.unsubscribe_acknowledged_us) == (0, 2)


def test_the_record_says_since_when_an_application_wanted_no_more_events() -> None:
    observer = Observer(Trace(), lambda _: 0)
    ledger = Ledger(observer, 1)
    ledger.enter(Note(1, 0, Call("subscribe", 1, SURF)))
    ledger.given_up_us[0, SURF] = 5
    ledger.enter(Note(9, 0, Call("unsubscribe", 1, SURF)))

    (record,) = observer.journal.subscriptions.values()
    assert (record.unsubscribe_wanted_us, record.unsubscribe_called_us) == (5, 9)
    assert ledger.given_up_us == {}
