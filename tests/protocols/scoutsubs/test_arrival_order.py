"""The order of arrival, which is written down when it is first asked for."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.arrival_order import ArrivalOrder
from smartpubsub.protocols.scoutsubs.duplicates import EventKey

PUBLISHERS = (b"a", b"b", b"c")


@given(
    st.lists(st.tuples(st.sampled_from(PUBLISHERS), st.sampled_from(["come", "leave", "ask"]))),
)
def test_the_oldest_event_of_a_publisher_is_the_first_that_has_come_and_not_left(
    happenings: list[tuple[bytes, str]],
) -> None:
    kept: dict[EventKey, None] = {}
    order = ArrivalOrder(lambda: kept)
    for number, (publisher, what) in enumerate(happenings):
        own = [key for key in kept if key[0].publisher == publisher]
        if what == "come":
            key = (EventId(publisher, 1, number), "surf")
            kept[key] = None
            order.add(key)
        elif what == "leave" and own:
            del kept[own[-1]]
            order.drop(own[-1])
        elif own:
            assert order.oldest_of(publisher) == own[0]
        order.check()
