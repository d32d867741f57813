"""A replay merges the histories of all keepers, however the events are spread over them."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Subscription
from smartpubsub.protocols.scoutsubs.history import place_of
from smartpubsub.protocols.scoutsubs.messages import Bundle, Recall
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.replay import CaughtUp, Past
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Deliver, Effect, Indication, Loaded, Received, Send, Started
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import contacts_around

OWN, *KEEPERS = contacts_around("surf", 4, 1)[::-1]
HOUR_US = 3_600_000_000


def scouts(own: int, page_count_max: int) -> ScoutSubs:
    """A node that has its place."""
    contact = [OWN, *KEEPERS][own]
    kademlia = Kademlia(contact, Settings(), Random(1))
    settings = ScoutSettings(history_us_max=HOUR_US, page_count_max=page_count_max)
    node = ScoutSubs(settings, kademlia, StandInSigning(contact.peer), Random(1))
    node.handle(Started(0), 0)
    node.handle(Loaded(b"scout/", ()), 0)
    return node


def event(publisher: int, number: int, created_us: int, price: int) -> Publication:
    id = EventId(b"publisher %d" % publisher, 0, number)
    predicate = Predicate.parse(f"surf/price={price}")
    signature = StandInSigning(id.publisher).sign(id, predicate, b"")
    return Publication.of(id, predicate, b"", signature, created_us)


numbers = st.integers(0, 3)
events = st.lists(
    st.builds(event, numbers, st.integers(1, 50), st.integers(1, 20), st.integers(0, 9)),
    max_size=25,
    unique_by=lambda made: made.id,
)
pasts = (
    st.just(Past())
    | st.builds(Past, since_us=st.integers(0, 20))
    | st.builds(Past, last=st.integers(1, 30))
)


@st.composite
def spread(draw: st.DrawFn) -> tuple[list[Publication], list[list[Publication]]]:
    """Events, and which of them each keeper has; each event has a keeper."""
    all_events = draw(events)
    kept: list[list[Publication]] = [[] for _ in KEEPERS]
    for each in all_events:
        for keeper in draw(st.sets(st.integers(0, len(KEEPERS) - 1), min_size=1)):
            kept[keeper].append(each)
    return all_events, kept


class Reading:
    """One node that reads, and those that it asks, with no time and no network between them."""

    def __init__(self, kept: list[list[Publication]], page_count_max: int) -> None:
        self.reader = scouts(0, page_count_max)
        self.reader.handle(Indication(Joined(0)), 0)
        self.keepers = {}
        for number, (contact, some) in enumerate(zip(KEEPERS, kept, strict=True)):
            node = scouts(number + 1, page_count_max)
            node._outbox.now = 1
            for each in some:
                node._history.keep(each, "surf")
            self.keepers[contact.peer] = node
        self.asked: list[tuple[bytes, Recall]] = []
        self.told: list[object] = []
        self.questions = 0
        self.now = 0

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self.told.append(effect.item)
            elif isinstance(effect, Send) and isinstance(effect.message, Bundle):
                said = [part for part in effect.message.parts if isinstance(part, Recall)]
                self.asked += [(effect.peer, part) for part in said]

    def answer(self, place: int) -> None:
        """Have one of the questions that are open answered."""
        peer, part = self.asked.pop(place % len(self.asked))
        self.questions += 1
        answer = self.keepers[peer]._history.answer(part)
        self.now += 10_000  # So late that no message waits for the next batch.
        self.take(self.reader.handle(Received(peer, Bundle((answer,)), ()), self.now))

    def begin(self, wanted: str, past: Past) -> None:
        self.reader.subscribe(Subscription(1, Predicate.parse(wanted)), 0)
        kademlia = self.reader._lookups._kademlia
        kademlia.find_closest = lambda *_, **_options: (99, [])  # type: ignore[method-assign]
        self.reader.recall(1, past, 0)
        found = Found(99, b"surf", (*KEEPERS, OWN), 1)
        self.now = 10_000
        self.take(self.reader.handle(Indication(found), self.now))


@given(
    spread(),
    pasts,
    st.sampled_from(["surf", "surf/price[3,6]"]),
    st.integers(1, 6),
    st.lists(st.integers(0, 2), min_size=1, max_size=20),
)
def test_all_that_is_wanted_comes_once_and_in_order(
    kept: tuple[list[Publication], list[list[Publication]]],
    past: Past,
    wanted: str,
    page_count_max: int,
    turns: list[int],
) -> None:
    all_events, by_keeper = kept
    reading = Reading(by_keeper, page_count_max)
    reading.begin(wanted, past)
    while reading.asked:
        reading.answer(turns[reading.questions % len(turns)])

    matching = [
        each
        for each in sorted(all_events, key=place_of)
        if Predicate.parse(wanted).matches(each.predicate) and each.created_us >= past.since_us
    ]
    expected = matching[-past.last :] if past.last else matching
    *given_events, caught_up = reading.told
    assert [item.event for item in given_events if isinstance(item, Delivery)] == expected
    assert isinstance(caught_up, CaughtUp)
    assert caught_up.given == len(expected)
    assert caught_up.oldest_us == min((each.created_us for each in all_events), default=0)
    # A page more for each keeper than it fills, at most.
    assert reading.questions <= sum(len(some) // page_count_max + 1 for some in by_keeper)
