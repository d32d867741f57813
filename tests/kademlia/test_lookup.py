"""Lookups over random graphs with peers that are slow, fail, or lie."""

from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia import lookup as lookup_module
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.lookup import TRANSITIONS, Lookup, State

TARGET = 0


def contact(key: int) -> Contact:
    """A contact at a place of the test's choice, which no hash would give."""
    return Contact(b"peer %d" % key, key, (), wire_bytes=0)


@dataclass
class Graph:
    """Whom each peer tells of, and how it behaves; liars tell of peers that do not exist."""

    tells: dict[int, list[int]]
    behaviour: dict[int, str]

    def answers(self, key: int) -> bool:
        return self.behaviour.get(key, "fail") in ("answer", "slow answer")

    def reachable(self, seeds: list[int]) -> set[int]:
        """All that answer and can be heard of by asking everybody."""
        found: set[int] = set()
        pending = list(seeds)
        while pending:
            key = pending.pop()
            if key not in found and self.answers(key):
                found.add(key)
                pending += self.tells[key]
        return found


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    keys = draw(st.lists(st.integers(1, 200), min_size=1, max_size=14, unique=True))
    nobody = st.integers(201, 220) | st.integers(1, 200)
    told = st.lists(st.sampled_from(keys), max_size=5) | st.lists(nobody, max_size=5)
    behaviours = st.sampled_from(["answer", "answer", "slow answer", "fail", "slow failure"])
    return Graph({key: draw(told) for key in keys}, {key: draw(behaviours) for key in keys})


@dataclass
class Run:
    """A lookup that is carried out, with what was seen on the way."""

    graph: Graph
    lookup: Lookup
    alpha: int
    paths: int
    seeds: list[int]
    asked: list[int] = field(default_factory=list)
    path_of: dict[int, int] = field(default_factory=dict)
    open: list[int] = field(default_factory=list)
    slow: set[int] = field(default_factory=set)

    def to_the_end(self, data: st.DataObject) -> None:
        for number, key in enumerate(self.seeds):
            self.path_of.setdefault(key, number % self.paths)
        self.advance()
        while self.open:
            self.happen(data.draw(st.sampled_from(self.open)))
            if not self.lookup.finished:
                self.advance()

    def advance(self) -> None:
        for asked in self.lookup.next():
            self.asked.append(asked.key)
            self.open.append(asked.key)
        for path in range(self.paths):
            waited_for = [k for k in self.open if k not in self.slow and self.path_of[k] == path]
            assert len(waited_for) <= self.alpha

    def happen(self, key: int) -> None:
        behaviour = self.graph.behaviour.get(key, "fail")
        if behaviour.startswith("slow") and key not in self.slow:
            self.slow.add(key)
            self.lookup.on_slow(contact(key).peer)
            return
        self.open.remove(key)
        if self.graph.answers(key):
            told = self.graph.tells[key]
            for other in told:
                self.path_of.setdefault(other, self.path_of[key])
            self.lookup.on_answer(contact(key).peer, map(contact, told))
        else:
            self.lookup.on_failure(contact(key).peer)

    def result(self) -> list[int]:
        return [candidate.contact.key for candidate in self.lookup.closest()]


def run(graph: Graph, data: st.DataObject, *, k: int, alpha: int, paths: int = 1) -> Run:
    seeds = data.draw(st.lists(st.sampled_from(list(graph.tells)), max_size=4))
    lookup = Lookup(TARGET, map(contact, seeds), k=k, alpha=alpha, paths=paths)
    carried_out = Run(graph, lookup, alpha, paths, seeds)
    carried_out.to_the_end(data)
    return carried_out


small = st.integers(1, 4)


@given(graphs(), st.data(), small, small, small)
def test_a_lookup_ends_and_asks_nobody_twice(
    graph: Graph, data: st.DataObject, k: int, alpha: int, paths: int
) -> None:
    done = run(graph, data, k=k, alpha=alpha, paths=paths)

    assert done.lookup.finished
    assert done.lookup.next() == []
    assert len(set(done.asked)) == len(done.asked)


@given(graphs(), st.data(), small, st.integers(1, 3))
def test_a_lookup_that_may_ask_everybody_finds_all_that_can_be_reached(
    graph: Graph, data: st.DataObject, alpha: int, paths: int
) -> None:
    done = run(graph, data, k=1000, alpha=alpha, paths=paths)

    assert done.result() == sorted(graph.reachable(done.seeds))


@given(graphs(), st.data(), small, small)
def test_nobody_closer_was_heard_of_that_answers(
    graph: Graph, data: st.DataObject, k: int, alpha: int
) -> None:
    done = run(graph, data, k=k, alpha=alpha)

    result = done.result()
    assert set(result) <= graph.reachable(done.seeds)
    assert result == sorted(result)
    heard_of = {*done.seeds, *(other for key in result for other in graph.tells[key])}
    assert [key for key in sorted(heard_of | set(result)) if graph.answers(key)][:k] == result


@given(graphs(), st.data(), small, small)
def test_where_everybody_knows_the_closest_they_are_found(
    graph: Graph, data: st.DataObject, k: int, alpha: int
) -> None:
    live = sorted(key for key in graph.tells if graph.answers(key))
    graph.tells = dict.fromkeys(graph.tells, live[:k])

    done = run(graph, data, k=k, alpha=alpha)

    expected = live[:k] if any(graph.answers(seed) for seed in done.seeds) else []
    assert done.result() == expected


@given(graphs(), st.data(), small, small)
def test_only_known_transitions_happen(
    graph: Graph, data: st.DataObject, k: int, alpha: int
) -> None:
    seen = SeenTransitions(TRANSITIONS)
    with patch.object(lookup_module, "TRANSITIONS", seen):
        run(graph, data, k=k, alpha=alpha)

    assert seen.looked_up <= TRANSITIONS.keys()


class SeenTransitions(dict[tuple[State, str], State]):
    """The table of transitions, and which of them were looked up."""

    def __init__(self, transitions: dict[tuple[State, str], State]) -> None:
        super().__init__(transitions)
        self.looked_up: set[tuple[State, str]] = set()

    def __getitem__(self, transition: tuple[State, str]) -> State:
        self.looked_up.add(transition)
        return super().__getitem__(transition)


def test_every_transition_happens_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenTransitions(TRANSITIONS)
    monkeypatch.setattr(lookup_module, "TRANSITIONS", seen)
    peers = [contact(key) for key in range(1, 6)]
    happenings = {
        "answer": lambda lookup, peer: lookup.on_answer(peer, []),
        "slow": lambda lookup, peer: lookup.on_slow(peer),
        "failure": lambda lookup, peer: lookup.on_failure(peer),
    }
    ways = [[one, two, three] for one in happenings for two in happenings for three in happenings]

    for way in ways:
        lookup = Lookup(TARGET, peers[:2], k=2, alpha=1)
        for trigger in way:
            happenings[trigger](lookup, peers[1].peer)  # Heard of, and not asked.
            happenings[trigger](lookup, b"a stranger")
        assert lookup.next() == [peers[0]]
        for trigger in way:
            happenings[trigger](lookup, peers[0].peer)
        end = next((trigger for trigger in way if trigger != "slow"), None)
        assert lookup.closest() == [] if end != "answer" else lookup.closest()[0].hops == 1

    crowded = Lookup(TARGET, peers[:2], k=2, alpha=2, per_prefix_max=1)
    for peer in crowded.next():
        crowded.on_answer(peer.peer, [], "prefix")
    assert [candidate.contact for candidate in crowded.closest()] == peers[:1]
    assert seen.looked_up == TRANSITIONS.keys()


def test_disjoint_paths_share_no_peer() -> None:
    lookup = Lookup(TARGET, [contact(10), contact(20)], k=3, alpha=3, paths=2)
    assert lookup.next() == [contact(10), contact(20)]

    lookup.on_answer(contact(10).peer, [contact(20), contact(5), contact(6)])
    lookup.on_answer(contact(20).peer, [contact(10), contact(5), contact(7)])

    assert lookup.next() == [contact(5), contact(6), contact(7)]


def test_a_liar_leads_only_its_own_path_astray() -> None:
    lies = [contact(key) for key in range(1, 4)]
    lookup = Lookup(TARGET, [contact(100), contact(200)], k=3, alpha=3, paths=2)
    lookup.next()
    lookup.on_answer(contact(100).peer, lies)
    lookup.on_answer(contact(200).peer, [contact(50)])

    assert contact(50) in lookup.next()
    lookup.on_answer(contact(50).peer, [])
    for lie in lies:
        lookup.on_failure(lie.peer)
    lookup.next()

    assert lookup.finished
    assert [found.contact.key for found in lookup.closest()] == [50, 100, 200]


def test_a_slow_peer_lets_others_be_asked_and_may_still_answer() -> None:
    lookup = Lookup(TARGET, [contact(1), contact(2)], k=2, alpha=1)
    assert lookup.next() == [contact(1)]
    assert lookup.next() == []

    lookup.on_slow(contact(1).peer)
    assert lookup.next() == [contact(2)]
    lookup.on_answer(contact(2).peer, [])
    lookup.next()
    assert not lookup.finished

    lookup.on_answer(contact(1).peer, [])
    lookup.next()
    assert lookup.finished
    assert [found.contact.key for found in lookup.closest()] == [1, 2]


def test_nobody_is_asked_beyond_the_k_closest_that_may_answer() -> None:
    lookup = Lookup(TARGET, [contact(1), contact(2), contact(3)], k=2, alpha=3)
    assert lookup.next() == [contact(1), contact(2)]

    lookup.on_failure(contact(1).peer)

    assert lookup.next() == [contact(3)]


def test_hops_count_the_steps_to_hear_of_a_peer() -> None:
    lookup = Lookup(TARGET, [contact(9)], k=3, alpha=3)
    for key, told in [(9, [4]), (4, [1]), (1, [])]:
        assert lookup.next() == [contact(key)]
        lookup.on_answer(contact(key).peer, map(contact, told))

    assert [found.hops for found in lookup.closest()] == [3, 2, 1]
