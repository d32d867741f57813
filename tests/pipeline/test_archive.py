"""History becomes tables that anybody can verify, and CAR files again, the same to the byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smartpubsub.cli.main import main
from smartpubsub.node.identity import peer_text
from smartpubsub.pipeline.folders import locked
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_of, cid_text, encode
from smartpubsub.protocols.car import read_car, write_car
from smartpubsub.protocols.event_blocks import event_block
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent, new_event, sealed_draft
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic, rules_ordered_by
from tests.cli.running import commands
from tests.pipeline.given import table_in
from tests.protocols.pulsarcast.makers import NOW, Person

Captured = pytest.CaptureFixture[str]

DAY = 86_400_000_000
ANN, BOB, EVE = Person(1), Person(2), Person(3)


def archive(capsys: Captured, *arguments: object, code: int = 0) -> tuple[dict[str, Any], str]:
    assert main(["pipeline", "archive", *map(str, arguments), "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def announcement(author: Person, meta: Topic, version: Topic) -> TopicEvent:
    id = author.draft(meta).id
    draft = Draft(topic=meta.cid, id=id, created_us=NOW, payload=version.cid, is_announcement=True)
    return new_event(sealed_draft(draft, author.signing), author.peer, (), 1, author.signing)


def car(roots: Sequence[Cid], blocks: Sequence[bytes]) -> bytes:
    file = BytesIO()
    write_car(file, roots, blocks)
    return file.getvalue()


def exported(versions: Sequence[Topic], meta: Topic, events: Sequence[TopicEvent]) -> bytes:
    """A topic as a node exports it."""
    ordered = sorted(events, key=lambda event: event.place)
    linked = {cid for event in events for cid in event.parents}
    heads = [event.cid for event in ordered if event.cid not in linked]
    blocks = [meta.block, *(v.block for v in versions), *(event.block for event in ordered)]
    return car([versions[-1].cid, *heads], blocks)


def news() -> tuple[bytes, Topic, list[TopicEvent]]:
    """A topic in which events fork, with a second version, and events of two days."""
    topic, meta = ANN.topic()
    second = ANN.version(topic)
    first = ANN.event(topic, payload=b"first")
    forks = [who.event(topic, first, now=NOW + DAY) for who in (ANN, BOB, BOB)]
    last = BOB.event(second, *forks, payload=b"last", now=NOW + DAY)
    events = [first, *forks, last, announcement(ANN, meta, second)]
    return exported([topic, second], meta, events), topic, events


def minutes() -> tuple[bytes, Topic, list[TopicEvent]]:
    """A topic that keeps one order; others ask its author."""
    topic, meta = ANN.topic(rules_ordered_by(ANN.peer), name="minutes")
    events = [ANN.event(topic, draft=BOB.draft(topic, b"0"))]
    for number in range(1, 5):
        events.append(ANN.event(topic, events[-1], draft=BOB.draft(topic, b"%d" % number)))
    return exported([topic], meta, events), topic, events


def publication(who: Person, text: str, now: int = NOW) -> bytes:
    """An event of no topic, as its subscribers have it."""
    id, predicate = EventId(who.peer, 1, now % 1_000), Predicate.parse(text)
    signature = who.signing.sign(id, predicate, b"warm", now)
    return event_block(Publication.of(id, predicate, b"warm", signature, now))


@pytest.mark.usefixtures("spark")
def test_an_archive_has_one_writer_at_a_time(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "news.car").write_bytes(news()[0])
    words = ["pipeline", "archive", str(tmp_path / "news.car"), "--out", str(tmp_path / "a")]

    with locked(tmp_path / "a", "pipeline archive"):
        assert main(words) == 1

    assert "a: another pipeline archive is running there" in capsys.readouterr().err
    assert not (tmp_path / "a" / "events").exists()
    assert main(words) == 0


def test_a_lock_leaves_no_new_folder_behind_and_removes_no_other(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with locked(tmp_path / name, "pipeline archive"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert [*(tmp_path / "there").iterdir()] == []


@pytest.mark.usefixtures("size")
def test_history_goes_into_tables_and_comes_back_to_the_byte(
    tmp_path: Path, capsys: Captured
) -> None:
    files = {"news": news(), "minutes": minutes()}
    (tmp_path / "cars" / "more").mkdir(parents=True)
    (tmp_path / "cars" / "news.car").write_bytes(files["news"][0])
    (tmp_path / "cars" / "more" / "minutes.car").write_bytes(files["minutes"][0])
    (tmp_path / "cars" / "notes.txt").write_text("not meant")
    said_in_none = [publication(BOB, "lisbon/temp=24"), publication(ANN, "lisbon", NOW + DAY)]
    (tmp_path / "cars" / "more" / "no-topic.car").write_bytes(car([], said_in_none))
    out = tmp_path / "history"

    done, said = archive(capsys, tmp_path / "cars", "--out", out)

    assert "smartpubsub: " not in said  # Nothing is complained of.
    assert done["rows_in"] == {"blocks": 3 + 6 + 2 + 5 + 2}
    assert done["rows_out"] == {"topics": 5, "events": 11, "publications": 2}
    assert (done["bad"], done["files"], done["known"], done["missing"]) == (0, 3, 0, 0)
    topics = {row["cid"]: row for row in pq.read_table(out / "topics").to_pylist()}
    events = {row["cid"]: row for row in pq.read_table(out / "events").to_pylist()}
    for name, (_, topic, published) in files.items():
        first = topics[cid_text(topic.cid)]
        assert (first["name"], first["topic"], first["version"]) == (name, first["cid"], 1)
        assert first["author"] == peer_text(ANN.peer)
        for event in published:
            row = events[cid_text(event.cid)]
            assert row["topic"] == first["cid"]  # Whatever version it was published in.
            assert row["version"] == cid_text(event.topic)
            assert row["block"] == event.block
            assert row["parents"] == [*map(cid_text, event.parents)]
            assert row["height"] == event.height
            announces = cid_text(event.draft.payload) if event.draft.is_announcement else None
            assert row["announces"] == announces
            assert row["payload"] == (None if announces else event.draft.payload)
    last = topics[cid_text(files["minutes"][1].cid)]
    assert (last["ordered"], last["publishers"]) == (True, [peer_text(ANN.peer)])
    partitions = {
        path.parent.relative_to(out).parts for path in (out / "events").rglob("*.parquet")
    }
    name = f"topic={cid_text(files['news'][1].cid)}"
    assert partitions > {("events", name, "day=2023-11-14"), ("events", name, "day=2023-11-15")}
    assert len(partitions) == 3
    rows = sorted(pq.read_table(out / "publications").to_pylist(), key=lambda row: row["created"])
    assert [row["block"] for row in rows] == said_in_none
    assert [row["cid"] for row in rows] == [cid_text(cid_of(block)) for block in said_in_none]
    assert [row["day"] for row in rows] == ["2023-11-14", "2023-11-15"]
    assert (rows[0]["predicate"], rows[0]["payload"]) == ("lisbon/temp=24", b"warm")
    assert rows[0]["publisher"] == peer_text(BOB.peer)

    done, _ = archive(capsys, tmp_path / "cars/*.car", "--out", out)
    assert (done["rows_out"], done["known"]) == ({"topics": 0, "events": 0}, 9)

    again = tmp_path / "again.car"
    for name, wanted in {"news": "news", "minutes": cid_text(files["minutes"][1].cid)}.items():
        archive(capsys, "--from", out, "--topic", wanted, "--to", again)
        assert again.read_bytes() == files[name][0]
    done, _ = archive(capsys, "--from", out, "--to", again)
    assert done["rows_in"] == {"topics": 5, "events": 11, "publications": 2}
    assert done["rows_out"] == {"blocks": 18}
    with again.open("rb") as file:
        *blocks, one, two = read_car(file)[1]
        assert [one, two] == said_in_none
        assert {*map(cid_of, blocks)} == {event.cid for *_, e in files.values() for event in e} | {
            cid for content, *_ in files.values() for cid in map(cid_of, blocks_in(content)[:3])
        }


def blocks_in(content: bytes) -> list[bytes]:
    return list(read_car(BytesIO(content))[1])


@pytest.mark.usefixtures("size")
def test_what_cannot_be_believed_is_kept_apart_with_the_reason(
    tmp_path: Path, capsys: Captured
) -> None:
    topic, meta = ANN.topic(Rules(publishers=(ANN.peer,)))
    elsewhere, _ = BOB.topic()
    stolen = EVE.version(topic)
    good = ANN.event(topic)
    forged = ANN.event(topic, good)
    bad = {
        EVE.event(topic).block: "unauthorised: the topic does not allow this publisher and author",
        ANN.event(topic, good, height=5).block: "cyclic: an event that is not one higher",
        ANN.event(topic, now=NOW << 1).block: "future-dated: an event that is dated in the future",
        elsewhere.block: "incomplete: its meta topic is missing",
        BOB.event(elsewhere).block: "incomplete: its topic is missing",
        stolen.block: "unauthorised: a meta topic in which others may publish",
        forged.block.replace(b"hello", b"hullo"): "forged: an event that is not signed",
        encode({"name": "news"}): "malformed: a topic is a map of",
        encode([1, 2]): "malformed: a topic is a map of",
        encode({"predicate": "lisbon"}): "malformed: an event is a map of",
        publication(ANN, "a").replace(b"warm", b"cold"): "forged: an event that is not signed",
        publication(ANN, "a", NOW << 1): "future-dated: an event that is dated in the future",
        b"\xff": "malformed: no dag-cbor",
    }
    whole = car([topic.cid], [meta.block, topic.block, good.block, *bad])
    changed, foreign = bytearray(ANN.event(topic, good).block), b"raw bytes of somebody else's"
    damaged = BytesIO()
    write_car(damaged, [topic.cid], [bytes(changed), foreign, good.block])
    content = damaged.getvalue().replace(b"hello", b"hallo", 1)
    content = content.replace(cid_of(foreign), b"\x01\x55" + cid_of(foreign)[2:])
    (tmp_path / "bad.car").write_bytes(whole)
    (tmp_path / "damaged one.car").write_bytes(content[:-1])
    out = tmp_path / "history"

    done, said = archive(capsys, tmp_path / "bad.car", tmp_path / "damaged one.car", "--out", out)

    assert done["rows_out"] == {"topics": 2, "events": 1}
    assert (done["rows_in"], done["bad"]) == ({"blocks": 19}, 16)
    assert said.startswith(f"smartpubsub: 16 of 19 blocks are bad and kept in {out}/_bad, mostly: ")
    rows = pq.read_table(out / "_bad").to_pylist()
    found = {row["block"]: row["reason"] for row in rows if row["source"] == "bad.car"}
    assert found.keys() == bad.keys()
    for block, reason in bad.items():
        assert found[block].startswith(reason)
    damage = sorted((r["position"], r["reason"]) for r in rows if r["source"] == "damaged one.car")
    assert [place for place, _ in damage] == [0, 1, 2]
    assert damage[0][1] == "it does not match its content id"
    assert damage[1][1].startswith("its content id is of an unsupported kind")
    assert damage[2][1] == "the CAR file ends in the middle of a block"

    # Both are looked at again: the one is as it was, the other is good now.
    (tmp_path / "damaged one.car").write_bytes(car([], [forged.block]))
    done, _ = archive(capsys, tmp_path / "damaged one.car", "--out", out)
    assert (done["rows_out"], done["bad"]) == ({"topics": 0, "events": 1}, 0)
    assert {*pq.read_table(out / "_bad")["source"].to_pylist()} == {"bad.car"}


@pytest.mark.usefixtures("spark")
def test_gaps_are_told_and_filled(tmp_path: Path, capsys: Captured) -> None:
    _, topic, (first, second, *rest) = minutes()
    meta = next(block for block in blocks_in(minutes()[0]) if b"minutes/meta" in block)
    out = tmp_path / "history"
    (tmp_path / "a.car").write_bytes(
        car([], [meta, topic.block, first.block, *(event.block for event in rest)])
    )
    (tmp_path / "b.car").write_bytes(car([], [second.block]))

    done, said = archive(capsys, tmp_path / "a.car", "--out", out)
    assert done["missing"] == 1
    assert said.endswith("1 linked events are not in the archive; add a CAR file that has them\n")
    done, said = archive(capsys, tmp_path / "b.car", "--out", out)
    assert (done["rows_out"]["events"], done["missing"], said) == (1, 0, "")


@pytest.mark.usefixtures("spark")
def test_from_a_node_to_tables_to_another_node(tmp_path: Path, capsys: Captured) -> None:
    with commands() as running:
        a, b = running.node(tmp_path / "a"), running.node(tmp_path / "b")
        topic = running.output("topic", "create", "news", "--data", a.folder).strip()
        for text in ("one", "two"):
            running.output("topic", "publish", topic, text, "--data", a.folder)
        out, file = tmp_path / "history", tmp_path / "news.car"

        done, _ = archive(capsys, "--topic", topic, "--data", a.folder, "--out", out)
        archive(capsys, "--from", out, "--to", file)

        assert done["rows_out"] == {"topics": 2, "events": 3}
        assert {path.name for path in out.iterdir()} == {"topics", "events"}
        exported = tmp_path / "exported.car"
        running.output("topic", "export", topic, str(exported), "--data", a.folder)
        assert file.read_bytes() == exported.read_bytes()
        kept = running.output("topic", "import", str(file), "--data", b.folder, "--json")
        assert json.loads(kept)["kept"] == 5
        history = running.output("topic", "history", topic, "--data", b.folder)
        assert [line[-3:] for line in history.splitlines()] == ["one", "two"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["absent.car", "--out", "out"], 1, "absent.car: no such file or folder"),
        (["absent/*.car", "--out", "out"], 1, "absent/*.car: no such file or folder"),
        (["folder", "--out", "out"], 1, "folder is empty; give the path of CAR files"),
        (["texts", "--out", "out"], 1, "texts is empty; give the path of CAR files"),
        (["empty.car", "--out", "out"], 1, "there are no blocks in empty.car"),
        (
            ["text.txt", "--out", "out"],
            1,
            "text.txt: no CAR file, or a damaged one",
        ),
        (["empty.car", "--out", "other"], 1, "it has no column 'cid', only id"),
        (["empty.car", "--out", "thesis"], 1, "contains 'x.tex', which is not part of a table"),
        (["--from", "absent", "--to", "a.car"], 1, "absent: no such file or folder"),
        (["--from", "other", "--to", "a.car"], 1, "it has no column 'cid', only id"),
        (["--from", "texts", "--to", "a.car"], 1, "texts/topics: no such file or folder"),
        (["--topic", "news", "--out", "out"], 2, "'news' is no content id"),
        (["--from", "other"], 2, "go together"),
        (["empty.car"], 2, "give --out to add to an archive"),
        (["--out", "out"], 2, "give CAR files, or with --topic"),
    ],
)
def test_mistakes_are_named_in_a_line(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: Captured,
) -> None:
    for name in ("folder", "texts"):
        (tmp_path / name).mkdir()
    (tmp_path / "texts" / "a.txt").write_text("x")
    (tmp_path / "text.txt").write_text("plain text")
    (tmp_path / "empty.car").write_bytes(car([], []))
    table_in(tmp_path / "other" / "topics", pa.table({"id": [1]}))
    (tmp_path / "thesis" / "topics").mkdir(parents=True)
    (tmp_path / "thesis" / "topics" / "x.tex").touch()
    words = [
        str(tmp_path / word) if word.split("/")[0].split(".")[0] in _PLACES else word
        for word in arguments
    ]

    assert main(["pipeline", "archive", *words]) == code

    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "out").exists()


_PLACES = {
    *("absent", "folder", "texts", "text", "empty", "other", "thesis", "out", "a"),
}
