"""Calls wait for acknowledgements for a limited time."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from smartpubsub.node.api import calls
from smartpubsub.node.api.calls import Call
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


def test_the_time_without_a_processor_never_falls() -> None:
    assert 0 <= starved_s() <= starved_s()
