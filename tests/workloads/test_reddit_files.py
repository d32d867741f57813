"""Reddit's topics and users become topics, subscriptions and events."""

import json
from pathlib import Path

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.workloads import WorkloadError
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe
from tests.workloads.said import read

NEWS = {"type": "topic", "name": "news/world", "author": "u1", "node": "b", "totalNumberEvents": 2}
CATS = {"type": "topic", "name": "cats", "author": "u2", "node": "a", "totalNumberEvents": 1}
IN_NEWS = Predicate.of({"news/world": True})
IN_CATS = Predicate.parse("cats")


def user(node: str, *events: object, **subscriptions: object) -> dict[str, object]:
    return {"type": "user", "name": "u", "node": node, "events": events} | (
        {"subscriptions": subscriptions} if subscriptions else {}
    )


def comment(number: object, topic: object, **more: object) -> dict[str, object]:
    return {"internalId": number, "topic": topic, **more}


def test_events_come_in_the_order_of_their_numbers_over_all_users(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        NEWS,
        CATS,
        user("a", comment(2, "news/world", ups=-3), comment(0, "cats")),
        user("c", comment(1, "news/world"), cats=True, **{"news/world": False}),
    )

    assert workload.names == ("b", "a", "c")
    assert workload.phases == (
        (CreateTopic(0, 0, "news/world", False), CreateTopic(0, 1, "cats", False)),
        (
            Subscribe(0, 1, IN_NEWS),
            Subscribe(0, 1, IN_CATS),
            Subscribe(0, 2, IN_CATS),
            Subscribe(0, 2, IN_NEWS),
        ),
        (
            Publish(0, 1, IN_CATS, b'{"internalId":0}'),
            Publish(10_000, 2, IN_NEWS, b'{"internalId":1}'),
            Publish(20_000, 1, IN_NEWS, b'{"internalId":2,"ups":-3}'),
        ),
    )


def test_users_of_one_node_subscribe_once(tmp_path: Path) -> None:
    workload = read(tmp_path, CATS, user("a", comment(0, "cats")), user("a", cats=True))

    assert workload.phases[1] == (Subscribe(0, 0, IN_CATS),)


def test_a_topic_without_a_line_is_made_by_the_first_who_writes(tmp_path: Path) -> None:
    workload = read(
        tmp_path, user("a", comment(5, "cats"), dogs=True), user("b", comment(4, "cats"))
    )

    assert workload.phases[0] == (
        CreateTopic(0, 1, "cats", False),
        CreateTopic(0, 0, "dogs", False),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"type": "post", "node": "a"}, 'type is "topic" or "user", found "post"'),
        ({"node": "a", "subscribe": "cats"}, 'type is "topic" or "user", and it is missing'),
        ({"type": "user"}, "node is a text in quotes, and it is missing"),
        ({"type": "topic", "node": "a"}, "the name of a topic is a text"),
        (CATS, "the topic 'cats' is repeated"),
        ({"type": "topic", "node": "a", "name": ""}, "topic: attribute '': a name is empty"),
        (user("a", 5), "events: number 0 is not an object"),
        (user("a", comment("1", "cats")), 'events: internalId is a whole number, found "1"'),
        (user("a", comment(True, "cats")), "events: internalId is a whole number, found true"),
        (user("a", comment(1, None)), "the name of a topic is a text"),
        (user("a", comment(1, "cats", by="\ud800")), "events contains half of a surrogate pair"),
        (user("a", comment(1, "cats", by="x" * 524_288)), "events has 524,3"),
        (user("a", cats=1), "subscriptions: 'cats' is true or false, found 1"),
        ({"type": "user", "node": "a", "events": {}}, "events is a list"),
        ({"type": "user", "node": "a", "subscriptions": []}, "subscriptions is an object"),
    ],
)
def test_a_bad_line_is_named(line: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path, CATS, json.dumps(line))

    assert caught.value.line == 2
    assert problem in caught.value.problem
