"""Many deadlines under one timer come in order, however they are set, moved and cancelled."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.runtime.deadlines import AT_ONCE_MAX, Deadlines
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import SetTimer

TIMER = ("toy", "wait")


class ToyDeadlines:
    def __init__(self) -> None:
        self.outbox: Outbox[str] = Outbox("toy", lambda parts: parts)
        self.deadlines: Deadlines[str] = Deadlines(self.outbox, "wait")
        self.fires_at: int | None = None
        self.came: list[tuple[str, int]] = []

    def take(self) -> None:
        for effect in self.outbox.take():
            assert isinstance(effect, SetTimer)
            assert effect.timer == TIMER
            self.fires_at = effect.at
        self.deadlines.check()

    def run_until(self, now: int) -> None:
        while self.fires_at is not None and self.fires_at <= now:
            self.outbox.now, self.fires_at = max(self.outbox.now, self.fires_at), None
            self.came += [(name, self.outbox.now) for name in self.deadlines.due()]
            self.take()
        self.outbox.now = now


steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "cancel", "run"]), st.sampled_from("abcd"), st.integers(0, 30)
    )
)


@given(steps)
def test_each_deadline_comes_at_its_time_unless_it_is_moved_or_cancelled(
    steps: list[tuple[str, str, int]],
) -> None:
    toy, expected = ToyDeadlines(), dict[str, int]()
    for what, name, number in steps:
        if what == "set":
            toy.deadlines.set(name, number)
            expected[name] = toy.outbox.now + number
        elif what == "cancel":
            toy.deadlines.cancel(name)
            expected.pop(name, None)
        else:
            until, toy.came = toy.outbox.now + number, []
            toy.run_until(until)
            due = {name: at for name, at in expected.items() if at <= until}
            assert dict(toy.came) == due
            assert [at for _, at in toy.came] == sorted(due.values())
            expected = {name: at for name, at in expected.items() if at > until}
        toy.take()
    assert len(toy.deadlines) == len(expected)


def test_many_deadlines_of_one_time_take_several_turns() -> None:
    toy = ToyDeadlines()
    for number in range(2 * AT_ONCE_MAX + 1):
        toy.deadlines.set(str(number), 5)
    toy.take()
    toy.outbox.now = 5
    assert len([*toy.deadlines.due()]) == AT_ONCE_MAX
    assert toy.outbox.take() == [SetTimer(TIMER, 5)]


def test_a_deadline_that_is_cancelled_in_the_same_turn_does_not_come() -> None:
    toy = ToyDeadlines()
    toy.deadlines.set("a", 5)
    toy.deadlines.set("b", 5)
    toy.outbox.now = 5
    came = []
    for name in toy.deadlines.due():
        came.append(name)
        toy.deadlines.cancel("b")
    assert came == ["a"]
