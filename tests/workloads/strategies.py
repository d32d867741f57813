"""Workloads in which everything that happens is possible, for property tests."""

from hypothesis import strategies as st

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import (
    Action,
    CrashNode,
    CreateTopic,
    Publish,
    RestartNode,
    Subscribe,
    Unsubscribe,
    Workload,
)
from tests.predicates.said import predicate
from tests.predicates.strategies import names, said

TIME_US_MAX = 10**12


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    nodes = draw(st.lists(names(), min_size=1, max_size=5, unique=True))
    story = _Story(draw, len(nodes), has_topics=draw(st.booleans()))
    phases = [story.phase() for _ in range(draw(st.integers(1, 5)))]
    return Workload(names=tuple(nodes), phases=tuple(phases))


class _Story:
    def __init__(self, draw: st.DrawFn, nodes: int, *, has_topics: bool) -> None:
        self._draw = draw
        self._nodes = nodes
        self._has_topics = has_topics
        self._topics: list[str] = []
        self._held: list[tuple[int, Predicate]] = []
        self._down: set[int] = set()

    def phase(self) -> tuple[Action, ...]:
        count = self._draw(st.integers(1, 5))
        at_us = (
            st.just(0) | st.integers(0, TIME_US_MAX) | st.integers(0, 1000).map(lambda t: t * 1000)
        )
        times = sorted(self._draw(st.lists(at_us, min_size=count, max_size=count)))
        only = self._draw(st.sampled_from([None, "subscribe", "topic"]))
        if only is not None:
            times = [0] * count
        if self._has_topics and not self._topics:
            only = "topic"
        return tuple(self._action(at_us, only) for at_us in times)

    def _action(self, at_us: int, only: str | None) -> Action:
        node = self._draw(st.integers(0, self._nodes - 1))
        possible = ["subscribe", "publish"]
        possible += ["topic"] if self._has_topics else []
        possible += ["unsubscribe"] if self._held else []
        possible += ["restart"] if node in self._down else ["crash"]
        what = only if only in possible else self._draw(st.sampled_from(possible))
        match what:
            case "topic":
                name = self._draw(names().filter(lambda name: name not in self._topics))
                self._topics.append(name)
                return CreateTopic(at_us, node, name, self._draw(st.booleans()))
            case "crash":
                self._down.add(node)
                return CrashNode(at_us, node)
            case "restart":
                self._down.remove(node)
                return RestartNode(at_us, node)
            case "unsubscribe":
                place = self._draw(st.integers(0, len(self._held) - 1))
                return Unsubscribe(at_us, *self._held.pop(place))
        about = self._predicate()
        if what == "publish":
            return Publish(at_us, node, about, self._draw(st.text(max_size=5)).encode())
        self._held.append((node, about))
        return Subscribe(at_us, node, about)

    def _predicate(self) -> Predicate:
        if self._has_topics:
            return Predicate.of({self._draw(st.sampled_from(self._topics)): True})
        return predicate(self._draw(said(max_size=3)))
