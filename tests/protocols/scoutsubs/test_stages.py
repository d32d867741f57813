"""Who knows in which stage an attribute is, whatever gets lost or comes to nodes in any order."""

import pytest

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.branches import (
    STAGE_MAX,
    branch_for,
    is_split,
    name_of,
    names_of,
)
from smartpubsub.protocols.scoutsubs.branching import STAGES_AT_ONCE_MAX
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Announce,
    Announced,
    Bundle,
    BundleLimits,
    CopyTree,
    Record,
    decode,
    encode,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import MS, Forest, chain

HOT = ScoutSettings(hot_copies_per_s=20)


def split(forest: Forest, stage: int = 2) -> int:
    """Have the rendezvous go to a stage; who it is."""
    (root,) = forest.roots()
    forest.scouts(root).office.branching.hear(forest.tree(root), stage)
    forest.do(root, forest.scouts(root).office.taken())
    return root


def claim(forest: Forest, number: int) -> int:
    return forest.scouts(number).office.branching.claim(forest.tree(number))


def own_trees(forest: Forest, number: int) -> list[str]:
    trees = forest.scouts(number).office.trees
    return [name for name in names_of("surf") if name in trees and trees[name].own]


def is_in_all(forest: Forest, number: int) -> bool:
    """Whether all that a node has been told to be in force is so in all branches."""
    placed = forest.scouts(number).office.subscribing._placed.values()
    told = [each.trees for each in placed if each.is_told]
    return all(list(trees) == list(names_of("surf")) and all(trees.values()) for trees in told)


def warm(forest: Forest, publisher: int, seconds: int) -> None:
    """Publish a while, so fast that the attribute is hot; somebody else does so too."""
    for number in range(20 * seconds):
        forest.publish(publisher - number % 2, "surf")
        forest.run(50 * MS)


# --- what a parent knows of its children ---


@pytest.mark.parametrize("split_ms", range(0, 50, 10))
@pytest.mark.parametrize("later_ms", [65, 70, 75])
def test_what_is_announced_meanwhile_does_not_undo_what_a_child_was_told(
    later_ms: int, split_ms: int
) -> None:
    """The second filter is announced before the node hears that the first one is in force."""
    forest = chain(3)
    forest.subscribe(2, "surf[0,5]")
    forest.run(later_ms * MS)
    forest.subscribe(2, "surf[7,9]")
    forest.run(split_ms * MS)
    split(forest)

    for _ in range(200):
        forest.run(MS)
        assert claim(forest, 0) == 1 or is_in_all(forest, 2)
    assert claim(forest, 0) == 2


def test_a_child_that_has_left_the_branches_counts_as_such_where_a_stage_before_is_known() -> None:
    forest = chain(3)
    forest.subscribed(2, "surf")
    split(forest)
    forest.run(SECOND)
    assert claim(forest, 0) == 2
    branching = forest.scouts(1).office.branching
    forest.tree(1).children[forest.contacts[2].peer].stage = 3

    assert branching.claim(forest.tree(1)) == 1


def test_who_knows_of_a_later_stage_is_in_the_branches_where_a_parent_sends_events_there() -> None:
    """As after failures in which those were lost that knew that the attribute is whole again."""
    forest = chain(4)
    forest.subscribed(3, "surf")
    forest.subscribed(1, "surf")
    split(forest)
    forest.run(SECOND)
    tree = forest.tree(3)
    forest.scouts(3).office.branching.hear(tree, 3)
    tree.stage_by = None
    forest.do(3, forest.scouts(3).office.taken())
    forest.run(20 * MINUTE)

    assert is_in_all(forest, 3)
    assert tree.stage == 4
    assert claim(forest, 0) == 2


def test_what_an_earlier_message_of_a_parent_says_is_no_later_stage() -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    split(forest, 3)
    forest.run(SECOND)
    tree = forest.tree(1)
    assert tree.stage == 3
    late = Announced("surf", 0, tree.version, tree.version, False, None, stage=2)
    forest.scouts(1).office.announcing.on_announced(forest.contacts[0].peer, late)
    assert tree.stage == 3


# --- what others say that need not be true ---


def announced(forest: Forest, sender: int, receiver: int, stage: int, version: int = 1000) -> None:
    part = Announce(
        "surf", 0, version, WHOLE, (Predicate.parse("surf"),), (), None, (), False, stage=stage
    )
    office = forest.scouts(receiver).office
    office.announcing.on_announce(forest.contacts[sender], part)
    forest.do(receiver, office.taken())


def test_no_child_makes_others_leave_the_branches() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    split(forest)
    forest.run(SECOND)
    announced(forest, 5, 0, 3)
    for _ in range(300):
        forest.run(MS)
        assert own_trees(forest, 4) == list(names_of("surf"))
    assert is_split(forest.tree(0).stage)


def test_no_child_makes_an_attribute_jump_to_a_stage_far_away() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    announced(forest, 5, 0, STAGES_AT_ONCE_MAX + 2)
    assert forest.tree(0).stage == 1
    assert forest.scouts(0).office.refusals["stages"] == 1


def test_a_branch_is_not_split() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    split(forest)
    forest.run(SECOND)
    (root,) = forest.roots("surf/1")
    tree = forest.tree(root, "surf/1")
    forest.scouts(root).office.branching.on_child(tree, 2)
    assert tree.stage == 1


def test_after_the_last_stage_there_is_none() -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    split(forest, STAGE_MAX)
    forest.run(SECOND)
    split(forest, STAGE_MAX + 1)
    forest.run(SECOND)
    assert [forest.tree(n).stage for n in (0, 1)] == [STAGE_MAX, STAGE_MAX]


def test_no_stage_is_read_that_nothing_can_come_after() -> None:
    part = CopyTree("surf", True, 1, True, (), (), STAGE_MAX)
    assert decode(encode(Bundle((part,))), BundleLimits()) == Bundle((part,))
    with pytest.raises(WireError, match="a stage of"):
        decode(encode(Bundle((part._replace(stage=STAGE_MAX + 1),))), BundleLimits())


def test_the_longest_attribute_that_looks_like_a_branch_can_be_sent() -> None:
    longest = "x" * (NAME_BYTES_MAX - 2) + "/3"
    part = CopyTree(name_of(longest), True, 1, True, (), ())
    assert decode(encode(Bundle((part,))), BundleLimits()) == Bundle((part,))


# --- attributes that nobody wants ---


def test_a_new_rendezvous_knows_that_an_attribute_is_split_that_nobody_wants() -> None:
    """For those who want it next have to be in the branches while those have the permission."""
    forest = Forest(8, HOT, absent=(0,))
    warm(forest, 7, 3)
    (root,) = forest.roots()
    assert is_split(forest.tree(root).stage)
    forest.join(0, by_way_of=root)
    forest.run_until(lambda: forest.tree(root).parent is not None, 5 * MINUTE)
    forest.subscribed(6, "surf")
    assert own_trees(forest, 6) == list(names_of("surf"))


def test_a_backup_knows_that_an_attribute_is_split_that_nobody_wants() -> None:
    forest = Forest(8, HOT)
    warm(forest, 7, 3)
    assert is_split(forest.tree(0).stage)
    forest.crash(0)
    forest.run(MINUTE // 2)
    forest.subscribed(6, "surf")
    assert own_trees(forest, 6) == list(names_of("surf"))


def test_a_rendezvous_does_not_forget_that_an_attribute_is_split_that_nobody_wants() -> None:
    settings = ScoutSettings(hot_copies_per_s=20, renew_us=MINUTE, backups=1)
    forest = Forest(4, settings)
    warm(forest, 3, 3)
    assert is_split(forest.tree(0).stage)
    forest.tree(0).used_us = -10 * MINUTE
    forest.run(MINUTE)
    assert is_split(forest.tree(0).stage)
    forest.run(10 * MINUTE)
    assert "surf" not in forest.scouts(0).office.trees


# --- going on ---


def test_an_attribute_can_be_split_again_after_somebody_did_not_get_into_a_branch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    office = forest.scouts(1).office
    make = office.tree
    monkeypatch.setattr(office, "tree", lambda name: None if name == "surf/2" else make(name))
    split(forest)
    forest.run(MINUTE)
    assert claim(forest, 0) == 1
    split(forest, 3)
    forest.run(MINUTE)
    assert claim(forest, 0) == 3


def test_what_was_stored_of_attributes_that_nobody_wants_any_more_is_forgotten() -> None:
    forest = Forest(2, ScoutSettings(renew_us=MINUTE))
    storing = forest.scouts(1).office.storing
    storing.on_loaded([(b"scout/stage/surf", (2).to_bytes(8, "big"))])
    assert storing.stage_of("surf") == 2
    forest.run(3 * MINUTE)
    assert (storing.stage_of("surf"), storing.bytes_held) == (0, 0)


def test_a_stage_that_was_stored_wrong_is_not_taken() -> None:
    forest = Forest(2)
    storing = forest.scouts(1).office.storing
    storing.on_loaded([(b"scout/stage/surf", b"\xff" * 8), (b"scout/stage/sun", b"2")])
    assert (storing.stage_of("surf"), storing.stage_of("sun"), storing.bytes_held) == (0, 0, 0)
    assert forest.scouts(1).office.refusals["stored"] == 2


# --- order ---


def test_no_event_goes_by_a_branch_while_one_before_it_is_under_way() -> None:
    """Also if the last one has come to all who wanted it."""
    forest = Forest(8, HOT)
    forest.subscribed(5, "surf[0,4]")
    forest.subscribed(6, "surf[5,9]")
    split(forest)
    forest.run(SECOND)
    assert claim(forest, 0) == 2
    publisher = next(n for n in (1, 2, 3, 4, 7) if branch_of(forest, n) != "surf")
    forest.published(publisher, "surf[1,1]")
    forest.cut(0, 5, SECOND // 2)
    forest.publish(publisher, "surf[2,2]")
    forest.published(publisher, "surf[6,6]")
    forest.run(100 * MS)
    branching = forest.scouts(0).office.branching
    branching._heat_of(forest.tree(0)).hot_us = forest.clock(0)

    def tree_of(id: EventId) -> str:
        (name,) = {
            said.part.attribute
            for said in forest.said
            if isinstance(said.part, Record) and said.part.event.id == id
        }
        return name

    assert tree_of(forest.published(publisher, "surf[3,3]")) == "surf"
    forest.run(10 * SECOND)
    assert tree_of(forest.published(publisher, "surf[4,4]")) == branch_of(forest, publisher)
    forest.run(10 * SECOND)
    assert not branching._under_way


def test_no_event_goes_by_a_branch_while_the_one_before_it_waits() -> None:
    forest = Forest(8, HOT)
    forest.subscribed(5, "surf")
    split(forest)
    forest.run(SECOND)
    publisher = next(n for n in (1, 2, 3, 4, 7) if branch_of(forest, n) != "surf")
    forest.published(publisher, "surf")
    forest.cut(publisher, 0, 15 * MS)
    lost = forest.publish(publisher, "surf")
    forest.run(20 * MS)
    ids = [forest.publish(publisher, "surf")]
    forest.run(50 * MS)
    assert len(forest.scouts(0).office.following) == 1
    branching = forest.scouts(0).office.branching
    branching._heat_of(forest.tree(0)).hot_us = forest.clock(0)
    ids += [forest.publish(publisher, "surf"), forest.publish(publisher, "surf")]
    forest.run(10 * SECOND)

    assert [id for id in forest.received(5) if id in ids] == ids
    assert forest.received(5).count(lost) == 1


def branch_of(forest: Forest, number: int) -> str:
    return branch_for("surf", forest.contacts[number].peer)
