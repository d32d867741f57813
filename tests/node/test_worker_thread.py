"""The thread of a host: functions end there one after the other, and errors come back."""

import threading

import pytest
import trio
import trio.testing

from smartpubsub.node.transport.worker_thread import WorkerThread


def test_functions_run_in_one_other_thread() -> None:
    seen: list[tuple[int, int]] = []

    async def call_twice() -> None:
        with WorkerThread("worker") as worker:
            for number in range(2):
                await worker.call(lambda n: seen.append((n, threading.get_ident())), number)

    trio.run(call_twice)
    assert [number for number, _ in seen] == [0, 1]
    assert len({thread for _, thread in seen} | {threading.get_ident()}) == 2


def test_the_event_loop_goes_on_meanwhile() -> None:
    may_end = threading.Event()

    async def call() -> None:
        with WorkerThread("worker") as worker:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.call, may_end.wait)
                await trio.testing.wait_all_tasks_blocked()
                may_end.set()

    trio.run(call)


def test_an_error_is_the_caller_s_and_the_thread_goes_on() -> None:
    seen: list[int] = []

    def fail() -> None:
        raise OSError("the disk is gone")

    async def call() -> None:
        with WorkerThread("worker") as worker:
            with pytest.raises(OSError, match="the disk is gone"):
                await worker.call(fail)
            await worker.call(seen.append, 1)

    trio.run(call)
    assert seen == [1]


def test_a_cancelled_task_waits_until_the_function_has_ended() -> None:
    may_end, seen = threading.Event(), []

    def work() -> None:
        may_end.wait()
        seen.append("ended")

    async def call() -> None:
        with WorkerThread("worker") as worker, trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.call, work)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                nursery.start_soon(_set_soon, may_end)
        assert seen == ["ended"]

    trio.run(call)


async def _set_soon(event: threading.Event) -> None:
    with trio.CancelScope(shield=True):
        await trio.testing.wait_all_tasks_blocked()
        event.set()


def test_the_thread_ends_with_its_owner() -> None:
    async def call() -> None:
        with WorkerThread("ends with its owner") as worker:
            await worker.call(lambda: None)

    trio.run(call)
    for thread in threading.enumerate():
        if thread.name == "ends with its owner":
            thread.join(timeout=10)
            assert not thread.is_alive()
