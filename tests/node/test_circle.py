"""Payloads that the members of a circle can read, by keys that its owner hands out."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smartpubsub import Circle, Node, PayloadError
from smartpubsub.node.api import circle
from smartpubsub.node.identity import identity_in
from tests.node.hosts import LOOPBACK, run

NOT_MEMBER = "its key is not known here"


def peer_in(folder: Path) -> str:
    return str(identity_in(folder))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("owner", "b", "c")]


@pytest.fixture
def circles(folders: list[Path]) -> list[Circle]:
    """The circle at its owner, at a member, and at a node that is none."""
    owner = Circle(folders[0], "plans")
    owner.add(peer_in(folders[1]))
    return [owner, *(Circle(folder, "plans", owner=owner.owner) for folder in folders[1:])]


def test_members_learn_the_key_from_a_payload(circles: list[Circle]) -> None:
    owner, member, stranger = circles
    written = owner.dumps({"at": "dawn"})

    assert b"dawn" not in written
    assert member.loads(written) == {"at": "dawn"}
    with pytest.raises(ValueError, match=NOT_MEMBER):
        stranger.loads(written)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    """Commands and programs change a circle in processes of their own."""
    wanted = [peer_in(tmp_path / f"member {number}") for number in range(32)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda peer: Circle(tmp_path / "owner", "plans").add(peer), wanted))

    assert sorted(Circle(tmp_path / "owner", "plans").members) == sorted(wanted)
    assert Circle(tmp_path / "owner", "plans").number == 1


def test_members_write_for_all_others(circles: list[Circle]) -> None:
    owner, member, stranger = circles
    with pytest.raises(ValueError, match=NOT_MEMBER):
        member.dumps("too early")
    member.take(owner.letter())
    written = member.dumps("by the river")

    assert owner.loads(written) == "by the river"
    with pytest.raises(ValueError, match=NOT_MEMBER):
        stranger.loads(written)


def test_a_removed_member_reads_what_was_written_before_and_nothing_else(
    circles: list[Circle], folders: list[Path]
) -> None:
    owner, removed, left = circles
    owner.add(peer_in(folders[2]))
    before = owner.dumps("before")
    assert removed.loads(before) == left.loads(before) == "before"
    owner.remove(peer_in(folders[1]))
    after = owner.dumps("after")

    assert owner.members == (peer_in(folders[2]),)
    assert left.loads(after) == "after"
    with pytest.raises(ValueError, match=NOT_MEMBER):
        removed.loads(after)
    assert removed.loads(before) == left.loads(before) == "before"
    with pytest.raises(ValueError, match=NOT_MEMBER):
        removed.loads(left.dumps("later"))


def test_a_new_member_does_not_read_what_was_written_with_earlier_keys(
    circles: list[Circle], folders: list[Path]
) -> None:
    owner, _, new = circles
    before = owner.dumps("before")
    owner.remove(peer_in(folders[1]))
    owner.add(peer_in(folders[2]))

    assert new.loads(owner.dumps("after")) == "after"
    with pytest.raises(ValueError, match=NOT_MEMBER):
        new.loads(before)


def test_an_old_letter_does_not_bring_an_old_key_back(
    circles: list[Circle], folders: list[Path]
) -> None:
    owner, removed, left = circles
    owner.add(peer_in(folders[2]))
    old = owner.letter()
    removed.take(old)
    owner.remove(peer_in(folders[1]))
    left.take(owner.letter())
    left.take(old)

    assert left.number == owner.number == 2
    with pytest.raises(ValueError, match=NOT_MEMBER):
        removed.loads(left.dumps("later"))


def test_letters_are_repeated_for_members_that_missed_one(
    circles: list[Circle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circle, "LETTER_EVERY", 3)
    owner, member, _ = circles
    written = [owner.dumps(number) for number in range(4)]

    with pytest.raises(ValueError, match=NOT_MEMBER):
        member.loads(written[1])
    assert [len(one) > len(written[1]) for one in written] == [True, False, False, True]
    assert member.loads(written[3]) == 3
    assert member.loads(written[1]) == 1


def test_keys_outlive_the_process_and_are_secret(
    circles: list[Circle], folders: list[Path]
) -> None:
    owner, member, _ = circles
    written = owner.dumps("dawn")
    member.loads(written)

    again = Circle(folders[1], "plans", owner=owner.owner)
    assert again.loads(written) == "dawn"
    assert Circle(folders[0], "plans").members == owner.members
    (file,) = (folders[1] / circle.FOLDER).glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_change_by_another_process_is_seen(circles: list[Circle], folders: list[Path]) -> None:
    owner, member, _ = circles
    member.take(owner.letter())
    Circle(folders[0], "plans").remove(peer_in(folders[1]))

    with pytest.raises(ValueError, match=NOT_MEMBER):
        member.loads(owner.dumps("after"))


def test_only_the_owner_hands_out_keys(circles: list[Circle], folders: list[Path]) -> None:
    owner, member, stranger = circles
    for call in (lambda: member.add(owner.owner), lambda: member.letter()):
        with pytest.raises(PayloadError, match="only its owner, 12D3KooW"):
            call()
    own = Circle(folders[2], "plans")
    own.add(peer_in(folders[1]))
    with pytest.raises(PayloadError, match="the owner has not signed it"):
        member.take(own.letter())
    with pytest.raises(PayloadError, match="the owner has not signed it"):
        Circle(folders[1], "other plans", owner=owner.owner).take(owner.letter())
    with pytest.raises(PayloadError, match="not one of its readers"):
        stranger.take(owner.letter())
    with pytest.raises(PayloadError, match="is no member"):
        owner.remove(peer_in(folders[2]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(place=st.integers(0), bit=st.integers(0, 7))
def test_a_changed_payload_is_never_read(circles: list[Circle], place: int, bit: int) -> None:
    owner, member, _ = circles
    member.take(owner.letter())
    written = bytearray(member.dumps("x"))
    written[place % len(written)] ^= 1 << bit

    with pytest.raises(ValueError, match="it"):
        member.loads(bytes(written))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_and_nothing_else(circles: list[Circle], content: bytes) -> None:
    for written in (content, circle._MAGIC + content):
        with pytest.raises(ValueError, match="it"):
            circles[1].loads(written)
    with pytest.raises(PayloadError):
        circles[1].take(content)


def test_a_damaged_file_is_named(circles: list[Circle], folders: list[Path]) -> None:
    (file,) = (folders[0] / circle.FOLDER).glob("*.json")
    file.write_text("{")

    with pytest.raises(PayloadError, match=r"\.json: the keys of a circle cannot be read"):
        circles[0].dumps("x")


def test_a_damaged_file_is_named_each_time_and_not_replaced(folders: list[Path]) -> None:
    again = Circle(folders[0], "plans")
    again.add(peer_in(folders[1]))
    (file,) = (folders[0] / circle.FOLDER).glob("*.json")
    document = json.loads(file.read_text())
    for damaged in ("{", json.dumps({**document, "keys": [document["keys"][0][2:]]})):
        file.write_text(damaged)
        for _ in range(2):
            with pytest.raises(PayloadError, match=r"\.json: the keys of a circle cannot be read"):
                again.dumps("x")
        with pytest.raises(PayloadError, match="put a backup in its place"):
            again.remove(peer_in(folders[1]))
        assert file.read_text() == damaged


def test_the_number_of_members_is_limited(
    circles: list[Circle], folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circle, "READER_COUNT_MAX", 2)
    with pytest.raises(PayloadError, match="at most 2 nodes, with its owner"):
        circles[0].add(peer_in(folders[2]))


def test_a_topic_whose_history_brings_the_keys(folders: list[Path]) -> None:
    a = Circle(folders[0], "plans")
    b = Circle(folders[1], "plans", owner=a.owner)
    a.add(peer_in(folders[1]))

    async def main() -> None:
        async with (
            Node(data=folders[0], listen=[LOOPBACK], serializer=a) as owner,
            Node(
                data=folders[1], listen=[LOOPBACK], bootstrap=owner.addresses, serializer=b
            ) as member,
        ):
            topic = await owner.create_topic("plans")
            await topic.publish(value="dawn")
            await topic.publish(value="dusk")
            history = await member.topic(topic.id).history()
            assert [entry.value() for entry in history] == ["dawn", "dusk"]
            async with member.topic(topic.id).subscribe() as events:
                a.remove(peer_in(folders[1]))
                await topic.publish(value="night")
                with pytest.raises(PayloadError, match=NOT_MEMBER):
                    (await anext(events)).value()

    run(main)
