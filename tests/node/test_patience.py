"""A process that stands still does not run out of time."""

import trio

from smartpubsub.node.transport.patience import PatientClock


class Slow:
    """The machine's clock, of which a test says how much passes."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_passes_as_it_does_while_the_loop_turns() -> None:
    machine = Slow()
    clock = PatientClock(0.05, machine)
    clock.start_clock()
    began = clock.current_time()
    for _ in range(10):
        machine.now += 0.01
        clock.before_io_wait(1.0)
        machine.now += 0.2
        clock.after_io_wait(1.0)

    assert abs(clock.current_time() - began - 2.1) < 1e-9


def test_a_round_takes_no_longer_than_the_limit() -> None:
    machine = Slow()
    clock = PatientClock(0.05, machine)
    clock.start_clock()
    began = clock.current_time()
    machine.now += 10
    assert abs(clock.current_time() - began - 0.05) < 1e-9

    clock.before_io_wait(0.0)
    machine.now += 10
    clock.after_io_wait(0.0)

    assert abs(clock.current_time() - began - 0.1) < 1e-9


def test_a_wait_takes_no_longer_than_it_was_to() -> None:
    machine = Slow()
    clock = PatientClock(0.05, machine)
    clock.start_clock()
    began = clock.current_time()
    clock.before_io_wait(2.0)
    machine.now += 10
    clock.after_io_wait(2.0)

    assert abs(clock.current_time() - began - 2.05) < 1e-9


def test_the_clock_never_goes_back() -> None:
    machine = Slow()
    clock = PatientClock(0.05, machine)
    clock.start_clock()
    shown = [clock.current_time()]
    for step in (0.01, 3.0, 0.0, 0.2):
        machine.now += step
        shown.append(clock.current_time())
        clock.before_io_wait(0.1)
        shown.append(clock.current_time())
        machine.now += step
        clock.after_io_wait(0.1)
        shown.append(clock.current_time())

    assert shown == sorted(shown)


def test_what_came_while_the_process_stood_still_is_in_time() -> None:
    machine = Slow()
    clock = PatientClock(0.05, machine)

    async def main() -> str:
        send, receive = trio.open_memory_channel[str](1)

        async def stand_still() -> None:
            machine.now += 60  # Nothing else runs meanwhile.
            send.send_nowait("answer")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand_still)
            with trio.fail_after(1):
                return await receive.receive()

    assert trio.run(main, clock=clock, instruments=[clock]) == "answer"
