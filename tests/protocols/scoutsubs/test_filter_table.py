"""A filter table: interested owners, the summary for the parent, and its versions."""

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.filter_table import (
    CHANGES_KEPT,
    CHILD_TRANSITIONS,
    ChildState,
    FilterTable,
    ScoutChild,
)
from smartpubsub.protocols.scoutsubs.membership import ROLE_TRANSITIONS, Role
from smartpubsub.protocols.scoutsubs.messages import WHOLE
from smartpubsub.protocols.scoutsubs.shard_names import NO_EPOCH
from smartpubsub.protocols.scoutsubs.subscriptions import (
    OWN_SUBSCRIPTION_TRANSITIONS,
    SubscriptionProgress,
)
from smartpubsub.seam import drawing

CHILD = Contact.of(b"child")
OTHER = Contact.of(b"other")


def shown(table: FilterTable) -> set[Predicate]:
    return set(table.summary())


def child_of(table: FilterTable, contact: Contact, *texts: str) -> ScoutChild:
    child = ScoutChild(contact, 0, 1, 0)
    table.children[contact.peer] = child
    table.change_child(child, [Predicate.parse(text) for text in texts], ())
    return child


# --- one table ---


def test_interested_subscriptions_and_children_are_found() -> None:
    table = FilterTable("surf")
    table.subscribe(1, Predicate.parse("surf"))
    table.subscribe(2, Predicate.parse("surf/price[0,5]"))
    table.subscribe(3, Predicate.parse("surf/price[6,9]"))
    child_of(table, CHILD, "surf/bali", "surf/price[3,4]")
    child_of(table, OTHER, "surf/price[5,5]")

    interested = table.interested(Predicate.parse("surf/price=4"))
    assert interested.own == (1, 2)
    assert interested.children == (CHILD.peer,)


def test_a_filter_that_two_children_have_stays_when_one_of_them_goes() -> None:
    table = FilterTable("surf")
    for contact in (CHILD, OTHER):
        child_of(table, contact, "surf/price[0,5]")
    table.drop_child(CHILD.peer)

    event = Predicate.parse("surf/price=4")
    assert table.interested(event).children == (OTHER.peer,)
    assert list(map(str, table.summary())) == ["surf/price[0,5]"]


def test_changes_name_added_and_removed_filters_but_none_that_came_and_went() -> None:
    table = FilterTable("surf")
    table.subscribe(1, Predicate.parse("surf/price[0,5]"))
    assert table.advance((), NO_EPOCH, offers_shortcut=False)
    table.received = table.version
    table.subscribe(2, Predicate.parse("surf/bali"))
    assert table.advance((), NO_EPOCH, offers_shortcut=False)
    table.unsubscribe(2)
    assert table.advance((), NO_EPOCH, offers_shortcut=False)
    table.subscribe(3, Predicate.parse("surf/wind[0,1]"))
    table.unsubscribe(1)
    assert table.advance((), NO_EPOCH, offers_shortcut=False)

    announcement = table.announcement(0, 0, is_retry=False)
    assert announcement.base == 1
    assert list(map(str, announcement.added)) == ["surf/wind[0,1]"]
    assert list(map(str, announcement.removed)) == ["surf/price[0,5]"]


def test_without_a_change_there_is_no_new_version() -> None:
    table = FilterTable("surf")
    table.subscribe(1, Predicate.parse("surf"))
    assert table.advance((), NO_EPOCH, offers_shortcut=False)
    table.subscribe(2, Predicate.parse("surf/bali"))
    assert not table.advance((), NO_EPOCH, offers_shortcut=False)


def test_a_parent_that_is_far_behind_is_told_everything() -> None:
    table = FilterTable("surf")
    table.received = 0
    for number in range(CHANGES_KEPT + 2):
        table.subscribe(number, Predicate.parse(f"surf/price[{2 * number},{2 * number}]"))
        table.advance((), NO_EPOCH, offers_shortcut=False)

    announcement = table.announcement(0, 0, is_retry=False)
    assert announcement.base == WHOLE
    assert set(announcement.added) == shown(table)


def test_only_a_node_with_one_child_and_no_wish_of_its_own_offers_a_shortcut() -> None:
    table = FilterTable("surf")
    child = child_of(table, CHILD, "surf")
    table.advance((), NO_EPOCH, offers_shortcut=True)
    assert table.shortcut == CHILD

    child.shortcut = OTHER  # The child itself has one.
    table.advance((), NO_EPOCH, offers_shortcut=True)
    assert table.shortcut == OTHER

    table.subscribe(1, Predicate.parse("surf/bali"))
    assert table.advance((), NO_EPOCH, offers_shortcut=True)
    assert table.shortcut is None


def test_a_copy_of_a_child_replaces_older_versions_only() -> None:
    table = FilterTable("surf")
    child = child_of(table, CHILD, "surf/bali")
    older = child.copy()
    child.version = 2
    table.change_child(child, [Predicate.parse("surf/price[0,5]")], ())
    assert not table.restore(older, 0, 9)
    assert len(child.filters) == 2

    newer = older._replace(incarnation=1, version=1)
    assert table.restore(newer, 0, 9)
    assert list(map(str, table.members())) == ["surf/bali"]


def test_a_copy_of_a_child_replaces_a_withdrawal_of_the_same_version() -> None:
    table = FilterTable("surf")
    child = child_of(table, CHILD, "surf/bali")
    copy = child.copy()._replace(version=2)
    child.version = 2
    table.change_child(child, (), list(child.filters))

    assert not table.restore(copy._replace(version=1), 0, 9)
    assert table.restore(copy, 0, 9)
    assert list(map(str, table.members())) == ["surf/bali"]


def test_every_role_can_be_left_and_reached() -> None:
    assert {start for start, _ in ROLE_TRANSITIONS} == set(Role)
    assert set(ROLE_TRANSITIONS.values()) == set(Role)


def test_the_roles_can_be_drawn() -> None:
    lines = drawing(ROLE_TRANSITIONS).splitlines()
    assert "    seeking --> child: closer peer found" in lines
    assert len(lines) == 1 + len(ROLE_TRANSITIONS)


def test_every_state_of_a_subscription_can_be_reached_and_all_but_the_last_can_be_left() -> None:
    left = {start for start, _ in OWN_SUBSCRIPTION_TRANSITIONS}
    assert left == set(SubscriptionProgress) - {SubscriptionProgress.ENDED}
    reached = set(OWN_SUBSCRIPTION_TRANSITIONS.values())
    assert reached == set(SubscriptionProgress) - {SubscriptionProgress.UNPLACED}


def test_every_state_of_a_child_can_be_reached_and_left() -> None:
    assert {start for start, _ in CHILD_TRANSITIONS} == set(ChildState)
    assert set(CHILD_TRANSITIONS.values()) == set(ChildState)
