"""A node that was the rendezvous of an event keeps it as a replica for the next rendezvous."""

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Confirm, Done, Notify, Record
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest


def handed_over() -> tuple[Forest, EventId]:
    """Node 1 was the rendezvous of an event, and is its replica for node 0, which has crashed.

    Node 3 has the event, but its confirmation has not arrived.
    """
    forest = Forest(4, ScoutSettings(backups=0, history_us_max=MINUTE))
    forest.crash(0)
    forest.run(20 * SECOND)
    forest.subscribed(3, "surf")
    assert forest.roots() == [1]
    forest.cut(3, 1, 10 * SECOND)
    id = forest.published(2, "surf")
    (flight,) = forest.scouts(1)._dissemination.root_flights()
    forest.receive(0, 1, flight.record(forest.clock(1)))
    assert (id, "surf") in forest.scouts(1)._events_kept.kept
    return forest, id


def is_in_flight(forest: Forest) -> bool:
    return bool(forest.scouts(1)._dissemination.root_flights())


def restart_and_resend(forest: Forest, id: EventId) -> None:
    """Restart node 1, and wait until it sends an event to its child again."""
    forest.run(2 * SECOND)  # The node stores marks of completed events a second later.
    before = len(forest.said)
    forest.crash(1)
    forest.join(1, 2)
    forest.run_until(lambda: is_sent_to_child(forest, id, before))


def is_sent_to_child(forest: Forest, id: EventId, since: int) -> bool:
    parts = [said.part for said in forest.said[since:] if said.receiver == 3]
    return any(isinstance(part, Notify) and part.event.id == id for part in parts)


def test_a_replica_outlives_the_custody_of_the_same_node() -> None:
    forest, id = handed_over()
    forest.receive(3, 1, Confirm(id, "surf", NO_PEER))
    assert not is_in_flight(forest)

    restart_and_resend(forest, id)


def test_custody_outlives_the_replica_at_the_same_node() -> None:
    forest, id = handed_over()
    forest.receive(0, 1, Done(id, "surf"))
    assert not forest.scouts(1)._events_kept.kept

    restart_and_resend(forest, id)


def test_a_former_rendezvous_confirms_an_event_after_its_children() -> None:
    forest, id = handed_over()
    (flight,) = forest.scouts(1)._dissemination.root_flights()

    def is_confirmed() -> bool:
        """Whether node 1 confirms the event to another node that sends it."""
        before = len(forest.said)
        forest.send(2, 1, Notify(flight.event, "surf", 1, False, NO_PEER))
        forest.run(SECOND)
        parts = [said.part for said in forest.said[before:] if said.receiver == 2]
        return any(isinstance(part, Confirm) and part.id == id for part in parts)

    assert not is_confirmed()
    forest.receive(3, 1, Confirm(id, "surf", NO_PEER))
    assert is_confirmed()


def test_a_replica_is_sent_again_when_the_next_rendezvous_has_crashed() -> None:
    forest, id = handed_over()
    forest.receive(3, 1, Confirm(id, "surf", NO_PEER))
    before = len(forest.said)
    assert not is_in_flight(forest)

    forest.run_until(lambda: is_sent_to_child(forest, id, before))
    assert forest.receivers(id) == [3]


def test_a_new_rendezvous_takes_over_no_events_of_other_attributes() -> None:
    forest = Forest(4)
    forest.subscribed(3, "surf")
    record = Record(forest.event(2, 1, "surf/ski"), "ski", 0, False, 0)

    forest.poke(0, lambda scouts: scouts._admission.take_over("surf", (record,)))

    assert forest.scouts(0)._dissemination.root_flights() == []


def test_an_event_that_was_kept_and_taken_over_is_handed_over_too() -> None:
    """Node 1 took itself for the rendezvous, had no subscribers, and completed the event."""
    forest = Forest(4, ScoutSettings(backups=0))
    forest.subscribed(3, "surf")
    forest.cut(0, 1, MINUTE)
    forest.cut(1, 0, MINUTE)
    forest.poke(1, lambda scouts: scouts._membership.join("surf"))
    forest.run_until(lambda: forest.roots() == [0, 1])
    kept = Record(forest.event(2, 1, "surf"), "surf", 0, False, 0)

    forest.poke(1, lambda scouts: scouts._admission.take_over("surf", (kept,)))
    assert forest.scouts(1)._dissemination.root_flights() == []

    forest.run_until(lambda: forest.receivers(kept.event.id) == [3], within=10 * MINUTE)
