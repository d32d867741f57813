"""Lines of actions become phases: what prepares comes first, the rest has times."""

import gzip
from pathlib import Path

from smartpubsub.predicates import Predicate
from smartpubsub.workloads import read_workload
from smartpubsub.workloads.actions import (
    CrashNode,
    CreateTopic,
    Publish,
    RestartNode,
    Subscribe,
    Unsubscribe,
)
from tests.workloads.said import read, written

A = Predicate.parse("a")
B = Predicate.parse("b[1,2]")


def test_subscriptions_come_before_events_that_follow_every_ten_milliseconds(
    tmp_path: Path,
) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a"},
        {"node": "n2", "publish": "a", "payload": "höhe"},
        {"node": "n1", "publish": "b=1"},
        {"node": "n3", "subscribe": "b[1,2]"},
    )

    assert workload.names == ("n1", "n2", "n3")
    assert workload.phases == (
        (Subscribe(0, 0, A), Subscribe(0, 2, B)),
        (
            Publish(0, 1, A, "höhe".encode()),
            Publish(10_000, 0, Predicate.parse("b=1"), b""),
        ),
    )


def test_what_has_a_time_happens_then_and_the_next_line_follows_it(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a", "at_ms": 5},
        {"node": "n2", "publish": "a", "at_ms": 7.25},
        {"node": "n2", "crash": True, "at_ms": 5000},
        {"node": "n2", "restart": True},
        {"node": "n1", "unsubscribe": "a"},
    )

    assert workload.phases == (
        (
            Subscribe(5_000, 0, A),
            Publish(7_250, 1, A, b""),
            CrashNode(5_000_000, 1),
            RestartNode(5_010_000, 1),
            Unsubscribe(5_020_000, 0, A),
        ),
    )


def test_a_subscription_after_the_end_of_another_keeps_its_place(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a"},
        {"node": "n1", "unsubscribe": "a"},
        {"node": "n1", "subscribe": "a"},
        {"node": "n2", "crash": True},
        {"node": "n2", "subscribe": "a"},
        {"node": "n3", "subscribe": "a"},
    )

    assert workload.phases == (
        (Subscribe(0, 0, A), Subscribe(0, 2, A)),
        (
            Unsubscribe(0, 0, A),
            Subscribe(10_000, 0, A),
            CrashNode(20_000, 1),
            Subscribe(30_000, 1, A),
        ),
    )


def test_equal_subscriptions_end_one_by_one(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a/b"},
        {"node": "n1", "subscribe": "b/a"},
        {"node": "n1", "unsubscribe": "a/b"},
        {"node": "n1", "unsubscribe": "a/b"},
    )

    assert len(workload.phases[1]) == 2


def test_where_topics_are_created_texts_are_their_names(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a/b = c"},
        {"node": "n2", "create_topic": "a/b = c", "ordered": True},
        {"node": "n1", "publish": "a/b = c"},
    )

    topic = Predicate.of({"a/b = c": True})
    assert workload.phases == (
        (CreateTopic(0, 1, "a/b = c", True),),
        (Subscribe(0, 0, topic),),
        (Publish(0, 0, topic, b""),),
    )


def test_a_subscription_waits_for_a_topic_that_is_created_at_a_time(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "create_topic": "t", "at_ms": 100},
        {"node": "n1", "subscribe": "t"},
    )

    assert workload.phases == (
        (CreateTopic(100_000, 0, "t", False), Subscribe(110_000, 0, Predicate.parse("t"))),
    )


def test_after_settling_times_begin_anew(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "n1", "subscribe": "a"},
        {"node": "n1", "publish": "a", "at_ms": 50},
        {"settle": True},
        {"node": "n1", "subscribe": "b[1,2]"},
        {"node": "n1", "publish": "a"},
    )

    assert workload.phases == (
        (Subscribe(0, 0, A),),
        (Publish(50_000, 0, A, b""),),
        (Subscribe(0, 0, B),),
        (Publish(0, 0, A, b""),),
    )


def test_idle_nodes_have_numbers(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        {"node": "quiet", "idle": True},
        {"node": "n1", "publish": "a"},
    )

    assert workload.names == ("quiet", "n1")
    assert workload.phases == ((Publish(0, 1, A, b""),),)


def test_blank_lines_returns_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "from-windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n\n  {"node": "n1", "publish": "a"}\r\n\r\n')

    assert read_workload(path).phases == ((Publish(0, 0, A, b""),),)


def test_a_compressed_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = written(tmp_path, {"node": "n1", "publish": "a"})
    plain = read_workload(path)
    path.write_bytes(gzip.compress(path.read_bytes()))

    assert read_workload(path) == plain
