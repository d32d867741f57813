"""Events gathered from several nodes are all that was wanted, or there is a gap."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.history import Gathering, Wanted
from tests.protocols.pulsarcast.makers import NOW, Person

SKEW_US = 50
AUTHOR = Person(1)
TOPIC, _ = AUTHOR.topic()


def history(links: list[list[int]], late_us: list[int]) -> list[TopicEvent]:
    """Events of which each links to some of those before it, by clocks that differ a little."""
    events: list[TopicEvent] = []
    for number, chosen in enumerate(links):
        parents = {events[one % number].cid: events[one % number] for one in chosen if number}
        if number and not parents:
            parents = {events[-1].cid: events[-1]}
        now = NOW + 100 * number + late_us[number % len(late_us)]
        events.append(AUTHOR.event(TOPIC, *parents.values(), now=now))
    return events


def gathering_of(wanted: Wanted, events: list[TopicEvent], all_: list[TopicEvent]) -> Gathering:
    gathering = Gathering(wanted, SKEW_US)
    linked = {cid for event in all_ for cid in event.parents}
    gathering.heads = {event.cid: event.height for event in all_ if event.cid not in linked}
    gathering.after = next((e.place for e in all_ if e.cid == wanted.since), None)
    gathering.add(events)
    return gathering


@given(
    links=st.lists(st.lists(st.integers(0, 20), max_size=3), min_size=1, max_size=20),
    late_us=st.lists(st.integers(-20, 20), min_size=1, max_size=5),
    lost=st.sets(st.integers(0, 19)),
    kind=st.sampled_from(["all", "since", "time", "last"]),
    place=st.integers(1, 19),
)
def test_nothing_is_missing_only_if_all_that_is_wanted_is_there(
    links: list[list[int]], late_us: list[int], lost: set[int], kind: str, place: int
) -> None:
    events = history(links, late_us)
    wanted = {
        "all": Wanted(),
        "since": Wanted(since=events[place % len(events)].cid),
        "time": Wanted(since_us=NOW + 100 * place),
        "last": Wanted(last=place),
    }[kind]
    whole = gathering_of(wanted, events, events)
    had = [event for number, event in enumerate(events) if number not in lost]
    part = gathering_of(wanted, had, events)

    assert whole.gaps().missing == ()
    assert part.gaps().missing or part.result() == whole.result()
    assert {event.cid for event in had}.isdisjoint(part.gaps().missing)

    part.add_own({event.cid: event for event in events})
    while missing := part.gaps().missing:
        part.add(event for event in events if event.cid in missing)
    assert part.result() == whole.result()
