"""The outbox keeps effects in order and gathers messages to a peer."""

from smartpubsub.protocols.runtime.outbox import BATCH_TIMER, LATE_TIMER, LATE_US_MAX, Outbox
from smartpubsub.seam import CancelTimer, Deliver, Send, SetTimer, Store


def outbox(batch_us: int = 0) -> Outbox[str]:
    return Outbox("toy", lambda parts: [tuple(parts)], batch_us)


def test_parts_to_a_peer_leave_together_after_other_effects() -> None:
    box = outbox()
    box.queue(b"a", "one")
    box.queue(b"b", "two")
    box.queue(b"a", "three")
    box.deliver("item")

    assert box.take() == [Deliver("item"), Send(b"a", ("one", "three")), Send(b"b", ("two",))]
    assert box.take() == []


def test_a_second_batch_within_the_interval_waits_for_the_flush_timer() -> None:
    box = outbox(batch_us=100)
    box.queue(b"a", "one")
    assert box.take() == [Send(b"a", ("one",))]

    box.now = 40
    box.queue(b"a", "two")
    box.queue(b"b", "other")
    assert box.take() == [Send(b"b", ("other",)), SetTimer(("toy", BATCH_TIMER), 140, True)]

    box.now = 140
    box.flush()
    assert box.take() == [Send(b"a", ("two",))]


def test_timers_and_stored_keys_are_named_after_the_protocol() -> None:
    box = outbox()
    box.now = 7
    box.set_timer(("probe", 1), 3)
    box.cancel_timer(("probe", 1))
    box.store(b"key", b"value")

    assert box.take() == [
        SetTimer(("toy", "probe", 1), 10),
        CancelTimer(("toy", "probe", 1)),
        Store(b"toy/key", b"value"),
    ]


def test_what_is_gathered_leaves_when_it_is_released() -> None:
    box = outbox(batch_us=100)
    box.gather()
    box.queue(b"a", "one")
    box.deliver("item")
    assert box.take() == [Deliver("item")]
    box.queue(b"a", "two")
    assert box.take() == []

    assert box.release() == [Send(b"a", ("one", "two"))]
    box.queue(b"b", "three")
    assert box.take() == [Send(b"b", ("three",))]


def test_what_may_be_late_waits_for_other_parts_to_the_same_peer() -> None:
    box = outbox()
    box.queue_late(b"a", "done 1")
    box.queue_late(b"b", "done 2")
    assert box.take() == [SetTimer(("toy", LATE_TIMER), LATE_US_MAX)]

    box.queue(b"a", "one")
    box.queue_late(b"a", "done 3")
    assert box.take() == [Send(b"a", ("done 1", "one", "done 3"))]

    box.send_late()
    assert box.take() == [Send(b"b", ("done 2",))]
    box.send_late()
    assert box.take() == []


def test_peers_that_get_the_same_share_one_message() -> None:
    box = outbox()
    for peer in (b"a", b"b"):
        box.queue(peer, "one")
    first, second = box.take()

    assert isinstance(first, Send)
    assert isinstance(second, Send)
    assert first.message is second.message
