"""One node's part of one tree: who wants what, what is shown above, and in which version."""

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.branches import UNTOLD
from smartpubsub.protocols.scoutsubs.child import Child
from smartpubsub.protocols.scoutsubs.messages import WHOLE
from smartpubsub.protocols.scoutsubs.tree import CHANGES_KEPT, TRANSITIONS, Role, Tree
from smartpubsub.seam import drawing

CHILD = Contact.of(b"child")
OTHER = Contact.of(b"other")


def shown(tree: Tree) -> set[Predicate]:
    return set(tree.summary())


def child_of(tree: Tree, contact: Contact, *texts: str) -> Child:
    child = Child(contact, 0, 1, 0)
    tree.children[contact.peer] = child
    tree.change_child(child, [Predicate.parse(text) for text in texts], ())
    return child


# --- one tree ---


def test_all_who_want_an_event_are_found_own_and_children() -> None:
    tree = Tree("surf")
    tree.subscribe(1, Predicate.parse("surf"))
    tree.subscribe(2, Predicate.parse("surf/price[0,5]"))
    tree.subscribe(3, Predicate.parse("surf/price[6,9]"))
    child_of(tree, CHILD, "surf/bali", "surf/price[3,4]")
    child_of(tree, OTHER, "surf/price[5,5]")

    interested = tree.interested(Predicate.parse("surf/price=4"))
    assert interested.own == (1, 2)
    assert interested.children == (CHILD.peer,)


def test_a_filter_that_two_children_have_stays_when_one_of_them_goes() -> None:
    tree = Tree("surf")
    for contact in (CHILD, OTHER):
        child_of(tree, contact, "surf/price[0,5]")
    tree.drop_child(CHILD.peer)

    event = Predicate.parse("surf/price=4")
    assert tree.interested(event).children == (OTHER.peer,)
    assert list(map(str, tree.summary())) == ["surf/price[0,5]"]


def test_changes_say_what_is_new_and_what_is_gone_and_nothing_that_came_and_went() -> None:
    tree = Tree("surf")
    tree.subscribe(1, Predicate.parse("surf/price[0,5]"))
    assert tree.advance((), UNTOLD, redirects=False)
    tree.received = tree.version
    tree.subscribe(2, Predicate.parse("surf/bali"))
    assert tree.advance((), UNTOLD, redirects=False)
    tree.unsubscribe(2)
    assert tree.advance((), UNTOLD, redirects=False)
    tree.subscribe(3, Predicate.parse("surf/wind[0,1]"))
    tree.unsubscribe(1)
    assert tree.advance((), UNTOLD, redirects=False)

    announcement = tree.announcement(0, 0, is_retry=False)
    assert announcement.base == 1
    assert list(map(str, announcement.added)) == ["surf/wind[0,1]"]
    assert list(map(str, announcement.removed)) == ["surf/price[0,5]"]


def test_without_a_change_there_is_no_new_version() -> None:
    tree = Tree("surf")
    tree.subscribe(1, Predicate.parse("surf"))
    assert tree.advance((), UNTOLD, redirects=False)
    tree.subscribe(2, Predicate.parse("surf/bali"))
    assert not tree.advance((), UNTOLD, redirects=False)


def test_a_parent_that_is_far_behind_is_told_everything() -> None:
    tree = Tree("surf")
    tree.received = 0
    for number in range(CHANGES_KEPT + 2):
        tree.subscribe(number, Predicate.parse(f"surf/price[{2 * number},{2 * number}]"))
        tree.advance((), UNTOLD, redirects=False)

    announcement = tree.announcement(0, 0, is_retry=False)
    assert announcement.base == WHOLE
    assert set(announcement.added) == shown(tree)


def test_only_a_node_with_one_child_and_no_wish_of_its_own_offers_a_shortcut() -> None:
    tree = Tree("surf")
    tree.role = Role.CHILD
    child = child_of(tree, CHILD, "surf")
    tree.advance((), UNTOLD, redirects=True)
    assert tree.direct == CHILD

    child.direct = OTHER  # The child itself has one.
    tree.advance((), UNTOLD, redirects=True)
    assert tree.direct == OTHER

    tree.subscribe(1, Predicate.parse("surf/bali"))
    assert tree.advance((), UNTOLD, redirects=True)
    assert tree.direct is None


def test_a_copy_of_a_child_replaces_what_is_older_and_nothing_newer() -> None:
    tree = Tree("surf")
    child = child_of(tree, CHILD, "surf/bali")
    older = child.copy()
    child.version = 2
    tree.change_child(child, [Predicate.parse("surf/price[0,5]")], ())
    assert not tree.restore(older, 0, 9)
    assert len(child.filters) == 2

    newer = older._replace(incarnation=1, version=1)
    assert tree.restore(newer, 0, 9)
    assert list(map(str, tree.members())) == ["surf/bali"]


def test_every_role_can_be_left_and_reached() -> None:
    assert {start for start, _ in TRANSITIONS} == set(Role)
    assert set(TRANSITIONS.values()) == set(Role)


def test_the_roles_can_be_drawn() -> None:
    lines = drawing(TRANSITIONS).splitlines()
    assert "    seeking --> child: somebody closer is there" in lines
    assert len(lines) == 1 + len(TRANSITIONS)
