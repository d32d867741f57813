"""The shard epoch of an attribute is known, whatever is lost or reordered."""

import pytest

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.scoutsubs.epochs import EPOCHS_AT_ONCE_MAX
from smartpubsub.protocols.scoutsubs.messages import (
    WHOLE,
    Announce,
    Announced,
    Bundle,
    CopyTree,
    Record,
    decode,
    encode,
)
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import (
    EPOCH_MAX,
    is_split,
    shard_for,
    shard_names,
    tree_name,
)
from tests.protocols.scoutsubs.forest import MS, Forest, chain

HOT = ScoutSettings(hot_copies_per_s=20)


def split(forest: Forest, epoch: int = 2) -> int:
    """Have the rendezvous take an epoch; return its number."""
    (root,) = forest.roots()
    forest.poke(root, lambda scouts: scouts._filters.epochs.set_epoch("surf", epoch))
    return root


def claim(forest: Forest, number: int) -> int:
    return forest.tree(number).claim


def own_trees(forest: Forest, number: int) -> list[str]:
    trees = [forest.scouts(number).tree(name) for name in shard_names("surf")]
    return [tree.attribute for tree in trees if tree is not None and tree.own]


def is_in_all(forest: Forest, number: int) -> bool:
    """Whether all that a node has been told to be in force is so in all shards."""
    subscriptions = forest.scouts(number)._subscriptions._subscriptions.values()
    told = [each.trees for each in subscriptions if each.is_reported]
    return all(list(trees) == list(shard_names("surf")) and all(trees.values()) for trees in told)


def warm(forest: Forest, publisher: int, seconds: int) -> None:
    """Publish a while from two nodes, so fast that the attribute is hot."""
    for number in range(20 * seconds):
        forest.publish(publisher - number % 2, "surf")
        forest.run(50 * MS)


# --- what a parent knows of its children ---


@pytest.mark.parametrize("split_ms", range(0, 50, 10))
@pytest.mark.parametrize("later_ms", [65, 70, 75])
def test_an_announcement_under_way_does_not_undo_the_epoch_that_a_child_was_told(
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


def test_a_child_that_has_left_the_shards_counts_as_such_where_a_epoch_before_is_known() -> None:
    forest = chain(3)
    forest.subscribed(2, "surf")
    split(forest)
    forest.run(SECOND)
    assert claim(forest, 0) == 2
    child = forest.tree(1).children[forest.contacts[2].peer]
    announced(forest, 2, 1, 3, child.version + 1)

    assert claim(forest, 1) == 1


def test_a_node_with_a_later_epoch_joins_the_shards_that_its_parent_uses() -> None:
    """As after failures in which those were lost that knew that the attribute is whole again."""
    forest = chain(4)
    forest.subscribed(3, "surf")
    forest.subscribed(1, "surf")
    split(forest)
    forest.run(SECOND)

    def take_later_epoch(scouts: ScoutSubs) -> None:
        scouts._filters.epochs.set_epoch("surf", 3)
        scouts._filters.tables["surf"].epoch_by = None

    forest.poke(3, take_later_epoch)
    forest.run(20 * MINUTE)

    assert is_in_all(forest, 3)
    assert forest.tree(3).epoch == 4
    assert claim(forest, 0) == 2


def test_a_late_message_of_a_parent_does_not_begin_a_new_epoch() -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    split(forest, 3)
    forest.run(SECOND)
    tree = forest.tree(1)
    assert tree.epoch == 3
    late = Announced("surf", 0, tree.version, tree.version, False, None, epoch=2)
    forest.receive(0, 1, late)
    assert forest.tree(1).epoch == 3


# --- what others say that need not be true ---


def announced(forest: Forest, sender: int, receiver: int, epoch: int, version: int = 1000) -> None:
    part = Announce(
        "surf", 0, version, WHOLE, (Predicate.parse("surf"),), (), None, (), False, epoch=epoch
    )
    forest.receive(sender, receiver, part)


def test_no_child_makes_others_leave_the_shards() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    split(forest)
    forest.run(SECOND)
    announced(forest, 5, 0, 3)
    for _ in range(300):
        forest.run(MS)
        assert own_trees(forest, 4) == list(shard_names("surf"))
    assert is_split(forest.tree(0).epoch)


def test_no_child_makes_an_attribute_jump_to_a_epoch_far_away() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    announced(forest, 5, 0, EPOCHS_AT_ONCE_MAX + 2)
    assert forest.tree(0).epoch == 1
    assert forest.rejected(0)["epochs"] == 1


def test_a_shard_is_not_split() -> None:
    forest = Forest(6, HOT)
    forest.subscribed(4, "surf")
    split(forest)
    forest.run(SECOND)
    (root,) = forest.roots("surf/1")
    forest.poke(root, lambda scouts: scouts._filters.epochs.on_child_epoch("surf/1", 2))
    assert forest.tree(root, "surf/1").epoch == 1


def test_after_the_last_epoch_there_is_none() -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    split(forest, EPOCH_MAX)
    forest.run(SECOND)
    split(forest, EPOCH_MAX + 1)
    forest.run(SECOND)
    assert [forest.tree(n).epoch for n in (0, 1)] == [EPOCH_MAX, EPOCH_MAX]


def test_no_epoch_is_read_that_nothing_can_come_after() -> None:
    part = CopyTree("surf", True, 1, True, (), (), EPOCH_MAX)
    assert decode(encode(Bundle((part,))), MessageLimits()) == Bundle((part,))
    with pytest.raises(WireError, match="a shard epoch of"):
        decode(encode(Bundle((part._replace(epoch=EPOCH_MAX + 1),))), MessageLimits())


def test_the_longest_attribute_that_looks_like_a_shard_can_be_sent() -> None:
    longest = "x" * (NAME_BYTES_MAX - 2) + "/3"
    part = CopyTree(tree_name(longest), True, 1, True, (), ())
    assert decode(encode(Bundle((part,))), MessageLimits()) == Bundle((part,))


# --- attributes without subscribers ---


def test_a_new_rendezvous_knows_that_an_attribute_without_subscribers_is_split() -> None:
    """For those who want it next have to be in the shards while those have the permission."""
    forest = Forest(8, HOT, absent=(0,))
    warm(forest, 7, 3)
    (root,) = forest.roots()
    assert is_split(forest.tree(root).epoch)
    forest.join(0, by_way_of=root)
    forest.run_until(lambda: forest.tree(root).parent is not None, 5 * MINUTE)
    forest.subscribed(6, "surf")
    assert own_trees(forest, 6) == list(shard_names("surf"))


def test_a_replica_knows_that_an_attribute_without_subscribers_is_split() -> None:
    forest = Forest(8, HOT)
    warm(forest, 7, 3)
    assert is_split(forest.tree(0).epoch)
    forest.crash(0)
    forest.run(MINUTE // 2)
    forest.subscribed(6, "surf")
    assert own_trees(forest, 6) == list(shard_names("surf"))


def test_a_rendezvous_remembers_that_an_attribute_without_subscribers_is_split() -> None:
    settings = ScoutSettings(hot_copies_per_s=20, renew_us=MINUTE, backups=1)
    forest = Forest(4, settings)
    warm(forest, 3, 3)
    assert is_split(forest.tree(0).epoch)

    def stop_using(scouts: ScoutSubs) -> None:
        scouts._membership.trees["surf"].used_us = -10 * MINUTE

    forest.poke(0, stop_using)
    forest.run(MINUTE)
    assert is_split(forest.tree(0).epoch)
    forest.run(10 * MINUTE)
    assert "surf" not in forest.scouts(0).view().trees


# --- going on ---


def test_an_attribute_can_be_split_again_after_a_node_was_not_in_all_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forest = chain(2)
    forest.subscribed(1, "surf")
    membership = forest.scouts(1)._membership
    join = membership.join
    monkeypatch.setattr(membership, "join", lambda name: None if name == "surf/2" else join(name))
    split(forest)
    forest.run(MINUTE)
    assert claim(forest, 0) == 1
    split(forest, 3)
    forest.run(MINUTE)
    assert claim(forest, 0) == 3


def test_stored_epochs_of_unused_attributes_are_removed() -> None:
    forest = Forest(2, ScoutSettings(renew_us=MINUTE))
    persistence = forest.scouts(1)._persistence
    persistence.on_loaded([(b"scout/stage/surf", (2).to_bytes(8, "big"))])
    assert persistence.epoch_of("surf") == 2
    forest.run(3 * MINUTE)
    assert (persistence.epoch_of("surf"), persistence.bytes_held) == (0, 0)


def test_a_epoch_that_was_stored_wrong_is_not_taken() -> None:
    forest = Forest(2)
    persistence = forest.scouts(1)._persistence
    persistence.on_loaded([(b"scout/stage/surf", b"\xff" * 8), (b"scout/stage/sun", b"2")])
    assert [persistence.epoch_of(name) for name in ("surf", "sun")] == [0, 0]
    assert persistence.bytes_held == 0
    assert forest.rejected(1)["stored"] == 2


# --- order ---


def keep_hot(forest: Forest) -> None:
    """Have the rendezvous take its load for high."""

    def heat(scouts: ScoutSubs) -> None:
        scouts._shards._load_of("surf").hot_us = forest.clock(0)

    forest.poke(0, heat)


def test_no_event_goes_by_a_shard_while_one_before_it_is_under_way() -> None:
    """Also if the last one has come to all who wanted it."""
    forest = Forest(8, HOT)
    forest.subscribed(5, "surf[0,4]")
    forest.subscribed(6, "surf[5,9]")
    split(forest)
    forest.run(SECOND)
    assert claim(forest, 0) == 2
    publisher = next(n for n in (1, 2, 3, 4, 7) if shard_of(forest, n) != "surf")
    forest.published(publisher, "surf[1,1]")
    forest.cut(0, 5, SECOND // 2)
    forest.publish(publisher, "surf[2,2]")
    forest.published(publisher, "surf[6,6]")
    forest.run(100 * MS)
    keep_hot(forest)

    def tree_of(id: EventId) -> str:
        (name,) = {
            said.part.attribute
            for said in forest.said
            if isinstance(said.part, Record) and said.part.event.id == id
        }
        return name

    assert tree_of(forest.published(publisher, "surf[3,3]")) == "surf"
    forest.run(10 * SECOND)
    assert tree_of(forest.published(publisher, "surf[4,4]")) == shard_of(forest, publisher)
    forest.run(10 * SECOND)
    assert not forest.scouts(0)._shards._under_way


def test_no_event_goes_by_a_shard_while_the_one_before_it_waits() -> None:
    forest = Forest(8, HOT)
    forest.subscribed(5, "surf")
    split(forest)
    forest.run(SECOND)
    publisher = next(n for n in (1, 2, 3, 4, 7) if shard_of(forest, n) != "surf")
    forest.published(publisher, "surf")
    forest.cut(publisher, 0, 15 * MS)
    lost = forest.publish(publisher, "surf")
    forest.run(20 * MS)
    ids = [forest.publish(publisher, "surf")]
    forest.run(50 * MS)
    assert forest.held(0, "events that wait for a predecessor") == 1
    keep_hot(forest)
    ids += [forest.publish(publisher, "surf"), forest.publish(publisher, "surf")]
    forest.run(10 * SECOND)

    assert [id for id in forest.received(5) if id in ids] == ids
    assert forest.received(5).count(lost) == 1


def shard_of(forest: Forest, number: int) -> str:
    return shard_for("surf", forest.contacts[number].peer)
