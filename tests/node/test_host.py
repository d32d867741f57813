"""A host brings its core what happens, in order, and does what the core asks for, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from threading import Event as ThreadEvent

import pytest
import trio
import trio.testing

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.connections import ListenError
from smartpubsub.node.transport.host import Host, HostStoppedError
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.inbox import OWN
from smartpubsub.protocols.codecs import kademlia_codec
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    CancelTimer,
    Connect,
    Connected,
    Deliver,
    Departed,
    Disconnected,
    Effect,
    Event,
    Load,
    Loaded,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
    Unknown,
)
from tests.node.hosts import LOOPBACK, Memory, eventually, run

QUICK = HostSettings(answer_s=0.2, backoff_s_first=0.01, dial_s=2)

Answering = Callable[[Event, int], list[Effect]]


def say_nothing(_: Event, __: int) -> list[Effect]:
    return []


def answer_all(event: Event, _: int) -> list[Effect]:
    return [Answer(event.peer, event.message, event.number)] if isinstance(event, Asked) else []


class Recorder:
    """A host with a core that notes all events; what has been done is in one list, in order."""

    def __init__(
        self,
        react: Answering = say_nothing,
        *,
        settings: HostSettings = QUICK,
        identity: Identity | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.done: list[object] = []
        self.storage = Memory()
        self.react = react
        self.identity = identity or Identity.new()
        self.host = Host(
            self.identity,
            lambda _: self,
            [kademlia_codec(Settings())],
            self,
            on_deliver=self.done.append,
            settings=settings,
        )

    @property
    def own(self) -> Contact:
        return self.host.own

    def handle(self, event: Event, now: int) -> list[Effect]:
        self.events.append(event)
        return self.react(event, now)

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.storage.apply(changes)
        self.done.append(list(changes))

    def load(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return self.storage.load(prefix)

    async def do(self, *effects: Effect) -> None:
        await self.host.do(lambda _: list(effects))

    async def saw(self, *events: Event) -> None:
        await eventually(lambda: all(event in self.events for event in events))

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def running(*recorders: Recorder) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        for recorder in recorders:
            await nursery.start(recorder.host.run, [LOOPBACK])
        yield nursery
        nursery.cancel_scope.cancel()


def question(number: int) -> Message:
    return Message(Kind.FIND_NODE, b"%d" % number)


# --- storage, timers, order ---


def test_what_is_stored_is_kept_before_anything_else_is_done() -> None:
    def react(event: Event, _: int) -> list[Effect]:
        if isinstance(event, Started):
            return [Deliver("first"), Store(b"a", b"1"), Deliver("then"), Store(b"b", b"2")]
        return []

    async def main() -> None:
        recorder = Recorder(react)
        async with running(recorder):
            await eventually(lambda: "then" in recorder.done)

        assert recorder.done[1:] == [[(b"a", b"1"), (b"b", b"2")], "first", "then"]

    run(main)


def test_an_item_that_may_precede_the_commit_is_delivered_before_it_unless_it_follows_another() -> (
    None
):
    may_precede = {"event": True, "news": False, "receipt": None}

    async def main() -> None:
        recorder = Recorder()
        recorder.host._may_precede = lambda item: may_precede[str(item)]
        async with running(recorder):
            for items in (["receipt", "event"], ["news", "event"]):
                recorder.done.clear()
                await recorder.do(Store(b"a", b"1"), *map(Deliver, items))
                stored = recorder.done.index([(b"a", b"1")])
                assert (recorder.done.index("event") < stored) == ("receipt" in items)
                after = [item for item in recorder.done[stored:] if item in items]
                assert after[:1] == items[:1]

    run(main)


def test_what_happens_together_is_kept_together() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder), trio.open_nursery() as nursery:
            recorder.host.hold(True)
            for number in range(20):
                nursery.start_soon(recorder.do, Store(b"%d" % number, b""), Deliver(number))
            await trio.testing.wait_all_tasks_blocked()
            commits_before = recorder.host.counts.commits
            recorder.host.hold(False)

        assert recorder.host.counts.commits <= commits_before + 2
        assert sorted(item for item in recorder.done if isinstance(item, int)) == list(range(20))

    run(main)


def test_what_may_be_late_is_stored_with_what_comes_later() -> None:
    late = Store(b"late", b"1", may_be_late=True)

    async def main() -> None:
        recorder = Recorder(settings=replace(QUICK, late_s_max=1e6))
        async with running(recorder):
            recorder.done.clear()
            await recorder.do(late, Deliver("not stored"))
            assert recorder.done == ["not stored"]
            await recorder.do(Store(b"a", b"1"))
            assert recorder.done[1:] == [[(b"late", b"1"), (b"a", b"1")]]
            await recorder.do(late._replace(value=b"2"))
            await recorder.do(Store(b"late", b"3"))
            assert recorder.done[2:] == [[(b"late", b"3")]]
            await recorder.do(late._replace(value=None), Load(b"late"))
            await recorder.saw(Loaded(b"late", ()))
            await recorder.do(late)
            await recorder.host.stop()
        assert recorder.storage.load(b"late") == [(b"late", b"1")]

    run(main)


def test_what_may_be_late_is_stored_in_time() -> None:
    async def main() -> None:
        recorder = Recorder(settings=replace(QUICK, late_s_max=0.01))
        async with running(recorder):
            await recorder.do(Store(b"late", b"1", may_be_late=True))
            await eventually(lambda: recorder.storage.load(b"late") == [(b"late", b"1")])

    run(main)


def test_what_was_stored_can_be_loaded_again() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            await recorder.do(Store(b"x/2", b"two"), Store(b"x/1", b"one"), Store(b"y", b""))
            await recorder.do(Store(b"x/2", None), Load(b"x/"))

            await recorder.saw(Loaded(b"x/", ((b"x/1", b"one"),)))

    run(main)


def test_timers_fire_in_order_unless_moved_or_cancelled() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            now = recorder.host.clock.now()
            await recorder.do(
                SetTimer("late", now + 30_000),
                SetTimer("early", now + 10_000),
                SetTimer("never", now + 15_000),
                SetTimer("moved", now + 1_000),
                SetTimer("moved", now + 20_000),
                CancelTimer("never"),
            )
            await recorder.saw(TimerFired("late"))

            assert recorder.of(TimerFired) == [
                TimerFired("early"),
                TimerFired("moved"),
                TimerFired("late"),
            ]
            assert recorder.host.clock.now() >= now + 30_000
            # The node itself is no stranger, which would get less while others wait.
            assert OWN not in recorder.host._shares._buckets

    run(main)


def test_a_timer_that_may_be_early_fires_when_all_is_handled() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            at = recorder.host.clock.now() + 1_000_000_000
            await recorder.do(SetTimer("hasty", at, may_be_early=True), SetTimer("other", at))

            assert recorder.of(TimerFired) == [TimerFired("hasty")]

    run(main)


class _Gathering(Recorder):
    """A recorder whose core holds back what it delivers in a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] | None = None

    def gather(self) -> None:
        self.held = []

    def release(self, now: int) -> list[Effect]:  # noqa: ARG002
        held, self.held = self.held, None
        return [Deliver(held)] if held else []

    async def hold(self, text: str) -> None:
        def call(_: int) -> list[Effect]:
            assert self.held is not None
            self.held.append(text)
            return []

        await self.host.do(call)


def test_a_core_that_gathers_is_released_once_for_all_that_it_handles_in_a_turn() -> None:
    async def main() -> None:
        recorder = _Gathering()
        async with running(recorder), trio.open_nursery() as nursery:
            recorder.host.hold(True)
            for text in "abc":
                nursery.start_soon(recorder.hold, text)
            await trio.testing.wait_all_tasks_blocked()
            recorder.host.hold(False)

        released = [item for item in recorder.done if isinstance(item, list) and "a" in item]
        assert [sorted(item) for item in released] == [["a", "b", "c"]]

    run(main)


@pytest.mark.contains_failures
def test_a_core_that_has_failed_is_not_released() -> None:
    async def main() -> None:
        recorder = _Gathering()
        async with running(recorder), trio.open_nursery() as nursery:
            recorder.host.hold(True)
            nursery.start_soon(recorder.hold, "acknowledgement")
            await trio.testing.wait_all_tasks_blocked()
            recorder.host._on_restart = lambda _: []
            recorder.host._inbox.put(TimerFired("fails"))
            recorder.react = fail_on_timer
            recorder.host.hold(False)
            await eventually(lambda: recorder.host.containment.restarts)

        assert ["acknowledgement"] not in recorder.done

    run(main)


def fail_on_timer(event: Event, _: int) -> list[Effect]:
    if event == TimerFired("fails"):
        raise ValueError("as planned")
    return []


class _Waiting(Memory):
    """Storage that waits until it may store."""

    def __init__(self, may_store: ThreadEvent) -> None:
        super().__init__()
        self._may_store = may_store

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        self._may_store.wait()
        super().apply(changes)


def messages_to(recorder: Recorder) -> list[object]:
    return [event.message for event in recorder.events if isinstance(event, Received)]


@pytest.mark.parametrize("commits_first", [False, True])
def test_what_acknowledges_nothing_is_sent_before_the_changes_are_stored(
    commits_first: bool,
) -> None:
    """Of two messages in one, as a codec splits them."""
    told = Message(Kind.ADD_PROVIDER, b"surf")
    may_store = ThreadEvent()

    def split(message: Message) -> tuple[Message, Message]:
        return message, message._replace(key=b"late")

    async def main() -> None:
        sender, receiver = Recorder(), Recorder()
        async with running(sender, receiver), trio.open_nursery() as nursery:
            await sender.do(Connect(receiver.own.peer, receiver.own.addresses))
            await sender.saw(Connected(receiver.own.peer))
            codec = sender.host._codecs[Message]
            sender.host._codecs[Message] = replace(codec, at_once=split)
            sender.storage = _Waiting(may_store)
            effects: list[Effect] = [Send(receiver.own.peer, told), Store(b"a", b"1")]
            nursery.start_soon(
                partial(sender.host.call, lambda _: (None, effects), commits_first=commits_first)
            )
            if not commits_first:
                await eventually(lambda: len(receiver.of(Received)) == 1)
            await trio.testing.wait_all_tasks_blocked()
            assert messages_to(receiver) == [told][commits_first:]
            may_store.set()
            expected = [told] if commits_first else [told, told._replace(key=b"late")]
            await eventually(lambda: len(receiver.of(Received)) == len(expected))
            assert messages_to(receiver) == expected

    run(main)


def test_a_core_is_told_once_that_it_has_started() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            await recorder.do()

        assert [type(event) for event in recorder.events] == [Started]

    run(main)


# --- questions and answers ---


def test_questions_are_answered_on_one_stream() -> None:
    async def main() -> None:
        asker, answerer = Recorder(), Recorder(answer_all)
        async with running(asker, answerer):
            peer, addresses = answerer.own.peer, answerer.own.addresses
            for number in range(50):
                await asker.do(Ask(peer, question(number), number, addresses))
            await eventually(lambda: len(asker.of(Answered)) == 50)

            answers = [Answered(peer, question(n), n, prefix="loopback") for n in range(50)]
            assert asker.of(Answered) == answers
            (event, *_) = answerer.of(Asked)
            assert isinstance(event, Asked)
            assert (event.peer, event.addresses) == (asker.own.peer, asker.own.addresses)

    run(main)


def test_a_question_that_is_asked_again_is_asked_once() -> None:
    async def main() -> None:
        asker, answerer = Recorder(), Recorder(answer_all)
        async with running(asker, answerer):
            ask = Ask(answerer.own.peer, question(1), 1, answerer.own.addresses)
            await asker.do(ask, ask)
            await asker.do(Ask(answerer.own.peer, question(2), 2))
            await eventually(lambda: len(asker.of(Answered)) == 2)

            assert len(answerer.of(Asked)) == 2

    run(main)


def test_a_peer_that_does_not_answer_can_be_asked_again() -> None:
    async def main() -> None:
        asker, mute = Recorder(), Recorder()
        async with running(asker, mute):
            peer = mute.own.peer
            await asker.do(Ask(peer, question(1), 1, mute.own.addresses))
            await eventually(lambda: asker.host.counts.unanswered + mute.host.counts.unanswered)
            await eventually(lambda: len(asker.host._lanes) == 0)
            mute.react = answer_all
            await asker.do(Ask(peer, question(2), 2))

            await asker.saw(Answered(peer, question(2), 2, prefix="loopback"))
            assert len(asker.of(Answered)) == 1

    run(main)


def test_what_wants_no_answer_is_received() -> None:
    told = Message(Kind.ADD_PROVIDER, b"surf")

    async def main() -> None:
        sender, receiver = Recorder(), Recorder(answer_all)
        async with running(sender, receiver):
            await sender.do(
                Connect(receiver.own.peer, receiver.own.addresses),
                Send(receiver.own.peer, told),
                Ask(receiver.own.peer, question(1), 1),
            )
            await sender.saw(Answered(receiver.own.peer, question(1), 1, prefix="loopback"))

            assert receiver.of(Received) == [Received(sender.own.peer, told, sender.own.addresses)]

    run(main)


# --- connections ---


def test_both_are_told_of_a_connection() -> None:
    async def main() -> None:
        one, other = Recorder(), Recorder()
        async with running(one, other):
            await one.do(Connect(other.own.peer, other.own.addresses))
            await one.saw(Connected(other.own.peer))
            await other.saw(Connected(one.own.peer))

            await one.do(Connect(other.own.peer, ()))
            await eventually(lambda: len(one.of(Connected)) == 2)

    run(main)


def test_the_end_of_the_last_connection_is_told() -> None:
    async def main() -> None:
        one, other = Recorder(), Recorder()
        async with running(one):
            async with running(other):
                await one.do(Connect(other.own.peer, other.own.addresses))
                await one.saw(Connected(other.own.peer))
                assert one.of(Disconnected) == []

            await one.saw(Disconnected(other.own.peer))

    run(main)


def test_nobody_where_a_peer_is_said_to_be() -> None:
    async def main() -> None:
        one, gone = Recorder(), Recorder()
        async with running(gone):
            pass
        async with running(one):
            await one.do(Connect(gone.own.peer, gone.own.addresses))
            await one.saw(Departed(gone.own.peer))
            assert one.of(Departed) == [Departed(gone.own.peer)]
            await one.do(Send(gone.own.peer, question(1)))
            await eventually(lambda: one.host.counts.dropped_unreachable == 1)

    run(main)


def test_a_host_that_stops_does_not_wait_for_a_peer_that_it_cannot_reach() -> None:
    async def main() -> None:
        stranger = Identity.new()
        one = Recorder(settings=HostSettings(drain_s=300, linger_s=300))
        async with running(one):
            await one.do(Send(stranger.peer, question(1)))
            await one.saw(Unknown(stranger.peer))
            with trio.fail_after(60):
                await one.host.stop()

    run(main)


def test_somebody_else_where_a_peer_is_said_to_be() -> None:
    async def main() -> None:
        one, other, absent = Recorder(), Recorder(), Identity.new()
        async with running(one, other):
            await one.do(Connect(absent.peer, other.own.addresses))

            await one.saw(Departed(absent.peer))
            assert one.of(Connected) == []

    run(main)


def test_a_peer_that_is_back_is_connected_again() -> None:
    async def main() -> None:
        one, other = Recorder(), Recorder(answer_all)
        async with running(one):
            async with running(other):
                await one.do(Ask(other.own.peer, question(1), 1, other.own.addresses))
                await eventually(lambda: len(one.of(Answered)) == 1)
            await one.saw(Disconnected(other.own.peer))
            again = Recorder(answer_all, identity=other.identity)
            async with running(again):
                await one.do(Ask(again.own.peer, question(2), 2, again.own.addresses))
                await eventually(lambda: len(one.of(Answered)) == 2)

    run(main)


def test_idle_connections_make_room() -> None:
    async def main() -> None:
        few = HostSettings(connection_count_high=2, idle_s_min=0)
        hub, spokes = Recorder(settings=few), [Recorder() for _ in range(4)]
        async with running(hub, *spokes):
            for spoke in spokes:
                await spoke.do(Connect(hub.own.peer, hub.own.addresses))
                await spoke.saw(Connected(hub.own.peer))
            await eventually(lambda: hub.host.connections.count <= 2)

            await spokes[0].saw(Disconnected(hub.own.peer))
            assert spokes[3].of(Disconnected) == []

    run(main)


# --- beginning and end ---


def test_nothing_can_be_asked_of_a_host_that_has_stopped() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            await recorder.host.stop()
            with pytest.raises(HostStoppedError):
                await recorder.do()

    run(main)


def test_what_waits_when_a_host_stops_is_refused() -> None:
    async def main() -> None:
        recorder = Recorder(settings=HostSettings(drain_s=0.01))
        async with running(recorder), trio.open_nursery() as nursery:
            recorder.host.hold(True)
            nursery.start_soon(recorder.host.stop)
            with pytest.raises(HostStoppedError):
                await recorder.do()

    run(main)


def test_an_address_in_use_is_told() -> None:
    async def main() -> None:
        first, second = Recorder(), Recorder()
        async with running(first):
            port = int.from_bytes(first.own.addresses[0][-2:], "big")
            with pytest.raises(BaseExceptionGroup) as caught:
                await second.host.run([f"/ip4/127.0.0.1/tcp/{port}"])
            assert caught.group_contains(ListenError)

    run(main)


@pytest.mark.parametrize("after_s", [0, 0.001, 0.003, 0.01, 0.03])
def test_a_host_can_be_cancelled_at_any_time(after_s: float) -> None:
    async def main() -> None:
        recorder = Recorder()
        with trio.move_on_after(after_s) as scope:
            await recorder.host.run([LOOPBACK])
        assert scope.cancelled_caught
        with pytest.raises(HostStoppedError):
            await recorder.do()

    run(main)


def test_what_is_sent_to_somebody_known_by_its_id_alone_waits_until_it_is_found() -> None:
    async def main() -> None:
        other = Recorder()

        def find(event: Event, _: int) -> list[Effect]:
            return [Connect(*other.own[::2])] if isinstance(event, Unknown) else []

        async with running(recorder := Recorder(find), other):
            message = Message(Kind.ADD_PROVIDER, b"a")
            await recorder.do(Send(other.own.peer, message), Send(other.own.peer, message))
            await eventually(lambda: len(other.of(Received)) == 2)

        assert recorder.of(Unknown) == [Unknown(other.own.peer)]
        assert recorder.host.counts.dropped == 0

    run(main)


def test_what_is_sent_to_somebody_who_is_not_found_is_dropped_and_counted() -> None:
    async def main() -> None:
        settings = replace(QUICK, find_s=0.01)
        async with running(recorder := Recorder(settings=settings)):
            nobody = Identity.new().peer
            await recorder.do(Send(nobody, Message(Kind.ADD_PROVIDER, b"a")))
            await recorder.saw(Unknown(nobody), Disconnected(nobody))
            await eventually(lambda: recorder.host.counts.dropped_unreachable == 1)

    run(main)


def test_what_came_before_a_timers_time_is_handled_before_it() -> None:
    async def main() -> None:
        recorder = Recorder()
        async with running(recorder):
            await recorder.saw(*recorder.of(Started))
            recorder.host.hold(True)
            async with trio.open_nursery() as nursery:
                due = recorder.host.clock.now()
                nursery.start_soon(recorder.do, SetTimer("a", due), Deliver("set"))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(recorder.do, CancelTimer("a"))
                await trio.testing.wait_all_tasks_blocked()
                recorder.host.hold(False)
            await recorder.do(Deliver("over"))

        assert recorder.of(TimerFired) == []

    run(main)
