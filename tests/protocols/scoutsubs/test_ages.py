"""How long an event is retransmitted, and which nodes may end that."""

from dataclasses import replace

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.messages import Completed, Confirm, Done, Notify
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest, variant

SHORT = ScoutSettings(renew_us=2 * MINUTE)


def with_one_that_is_away(settings: ScoutSettings = SHORT) -> tuple[Forest, int]:
    """A forest in which one of two subscribers cannot be reached."""
    forest = Forest(10, settings)
    for number in (8, 9):
        forest.subscribed(number, "surf")
    forest.cut_off(9, 60 * MINUTE)
    return forest, 9


def test_a_take_over_does_not_reset_the_age_of_an_event() -> None:
    """Or it would be sent for longer than those who have it remember it."""
    forest, _ = with_one_that_is_away()
    id = forest.published(5, "surf")
    for rendezvous in (0, 1):
        forest.run(SHORT.renew_us)
        forest.crash(rendezvous)
        forest.run(MINUTE)
    forest.run(MINUTE // 2)
    assert forest.holders(id) == []

    forest.said.clear()
    forest.run(5 * SHORT.renew_us)
    assert not any(isinstance(said.part, Notify) for said in forest.said)
    assert forest.receivers(id) == [8]


def test_a_publisher_that_is_cut_off_for_long_is_its_own_rendezvous() -> None:
    forest = Forest(8, SHORT)
    forest.cut_off(3, 30 * MINUTE)
    id = forest.publish(3, "surf")
    forest.run(2 * SHORT.renew_us + MINUTE)

    assert forest.is_published(id)
    assert forest.refusals() == []
    assert forest.held(3, "events without an acknowledgement") == 0


def test_giving_up_is_no_receipt() -> None:
    forest, _ = with_one_that_is_away()
    id = forest.published(5, "surf", wants_all=True)
    forest.run(4 * SHORT.renew_us)

    assert forest.holders(id) == []
    assert not forest.is_confirmed(id)


def test_all_replicas_of_an_event_are_told_when_it_is_completed() -> None:
    """Also a replica that is not among the closest any more, as a node has joined."""
    forest = Forest(10, ScoutSettings(backups=1), absent=(1,))
    forest.subscribed(9, "surf")
    forest.cut_off(9, 4 * MINUTE)
    id = forest.published(5, "surf")
    assert forest.holders(id) == [0, 2]
    forest.join(1, by_way_of=4)
    forest.run(2 * MINUTE)
    assert forest.holders(id) == [0, 1, 2]
    forest.run(4 * MINUTE)

    assert forest.receivers(id) == [9]
    assert forest.holders(id) == []


# --- who is believed ---


def test_a_stranger_cannot_end_the_care_for_an_event() -> None:
    forest, away = with_one_that_is_away()
    id = forest.published(5, "surf", wants_all=True)
    peer = forest.contacts[away].peer
    for number in (0, 1, 2):
        forest.send(7, number, Done(id, "surf"), Confirm(id, "surf", peer))
    forest.send(7, 5, Completed(id, "surf"))
    forest.run(5 * SECOND)

    assert forest.holders(id) == [0, 1, 2]
    assert not forest.is_confirmed(id)


def test_a_shortcut_leads_downwards() -> None:
    """A shortcut has to lead to a node below the child, or events would go in cycles."""
    forest = Forest(8)
    forest.subscribed(5, "surf")
    announced = forest.announced_to(0)[-1]
    wrong = announced._replace(version=announced.version + 1, shortcut=forest.contacts[2])
    forest.send(5, 0, wrong)
    forest.run(SECOND)

    assert forest.shortcut(0, 5) is None
    assert forest.rejected(0)["shortcut"] == 1
    id = forest.published(1, "surf")
    forest.run(SECOND)
    assert forest.receivers(id) == [5]


# --- who has moved ---


def test_a_child_that_moves_while_an_event_is_lost_on_its_old_way_gets_it() -> None:
    """Its former parent is sent the event again when the child has left already."""
    forest = Forest(9, replace(variant(is_reliable=True, redirects=False), fan_out_max=1))
    for number in (3, 8):
        forest.subscribed(number, "surf")
    assert forest.children(0) == {3: ["surf"]}
    assert forest.children(3) == {8: ["surf"]}
    forest.cut(0, 3, SECOND)
    id = forest.publish(1, "surf")
    forest.run(SECOND // 10)
    forest.move(8, 0, is_retry=True)
    forest.run(SECOND // 2)
    assert forest.children(3) == {}

    forest.run(MINUTE)
    assert forest.receivers(id) == [3, 8]
