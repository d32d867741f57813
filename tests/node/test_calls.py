"""Calls wait for acknowledgements for a limited time."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from smartpubsub.node.api import calls
from smartpubsub.node.api.calls import Call, Calls
from smartpubsub.node.errors import NotInTimeError
from smartpubsub.node.transport.processor_clock import starved_s


def waited_s(monkeypatch: pytest.MonkeyPatch, starved: Callable[[], float]) -> float:
    """How long a call of ten seconds waits that is never acknowledged."""
    monkeypatch.setattr(calls, "starved_s", starved)

    async def main() -> float:
        began_at, call = trio.current_time(), Call()
        late = pytest.raises(NotInTimeError, match="it was not acknowledged within 10 seconds")
        with late, call.limited("it", 10):
            await call.wait_patiently()
        return trio.current_time() - began_at

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_patient_call_does_not_count_the_time_without_a_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waited_s(monkeypatch, lambda: 0.0) == pytest.approx(10)
    assert waited_s(monkeypatch, lambda: 0.75 * trio.current_time()) == pytest.approx(40, abs=4)
    most = 10 + calls.STARVED_S_MAX
    assert waited_s(monkeypatch, lambda: 2 * trio.current_time()) == pytest.approx(most, abs=4)


def test_a_patient_call_ends_with_its_acknowledgement() -> None:
    async def main() -> float:
        call = Call()
        async with trio.open_nursery() as nursery:
            with call.limited("it", 10):
                nursery.start_soon(set_after, call, 3)
                await call.wait_patiently()
        return trio.current_time()

    async def set_after(call: Call, seconds: float) -> None:
        await trio.sleep(seconds)
        call.done.set()

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(3)


def ended_at(
    limits_s: list[float], answered: dict[int, float] | None = None
) -> tuple[list[float], list[bool]]:
    """When calls with these limits end that begin a second apart, and whether they are late.

    Some are answered after a time.
    """

    async def main() -> tuple[list[float], list[bool]]:
        every, ended, late = Calls(), [0.0 for _ in limits_s], [False for _ in limits_s]

        async def wait(number: int) -> None:
            await trio.sleep(number)
            call = Call()
            every.end_after(call, limits_s[number])
            with trio.move_on_after((answered or {}).get(number, 1e6)):
                await call.done.wait()
            call.is_over = True
            ended[number], late[number] = trio.current_time(), call.is_late

        async with trio.open_nursery() as nursery:
            nursery.start_soon(every.end_late)
            async with trio.open_nursery() as calling:
                for number in range(len(limits_s)):
                    calling.start_soon(wait, number)
            nursery.cancel_scope.cancel()
        return ended, late

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_calls_end_each_after_its_own_time() -> None:
    ended, late = ended_at([10, 3, 20, 0])
    assert ended == pytest.approx([10, 4, 22, 3])
    assert all(late)


def test_a_call_that_was_answered_is_not_late() -> None:
    ended, late = ended_at([10, 5, 10], {1: 2})
    assert ended == pytest.approx([10, 3, 12])
    assert late == [True, False, True]


def test_calls_that_are_over_are_forgotten() -> None:
    async def main() -> int:
        every, waiting = Calls(), Call()
        every.end_after(waiting, 60)
        for _ in range(10 * calls.DEADLINES_KEPT):
            call = Call()
            every.end_after(call, 60)
            call.is_over = True
        assert not waiting.is_over
        return every.deadline_count

    assert 1 <= trio.run(main) <= calls.DEADLINES_KEPT


def test_the_time_without_a_processor_never_falls() -> None:
    assert 0 <= starved_s() <= starved_s()
