"""Notes of several processes are told in the order in which things happened."""

from smartpubsub.testbed.messages import Done, Note
from smartpubsub.testbed.timeline import Timeline


def note(at: int, number: int = 0) -> Note:
    return Note(at, 0, Done(number))


def test_what_another_process_may_still_precede_waits() -> None:
    heard: list[Note] = []
    timeline = Timeline(heard.append)
    timeline.open("a", 0)
    timeline.open("b", 0)

    timeline.add("a", 100, [note(10), note(90)])
    timeline.advance(1_000)
    assert heard == []

    timeline.add("b", 50, [note(20)])
    timeline.advance(1_000)
    assert [each.at_us for each in heard] == [10, 20]

    timeline.add("b", 200, [note(60)])
    timeline.advance(1_000)
    assert [each.at_us for each in heard] == [10, 20, 60, 90]


def test_nobody_waits_for_a_process_that_has_told_everything() -> None:
    heard: list[Note] = []
    timeline = Timeline(heard.append)
    timeline.open("a", 0)
    timeline.open("b", 0)
    timeline.add("b", 70, [note(70)])

    timeline.close("a")
    timeline.advance(1_000)

    assert heard == [note(70)]


def test_what_happened_at_one_time_keeps_the_order_in_which_it_was_told() -> None:
    heard: list[Note] = []
    timeline = Timeline(heard.append)
    timeline.open("a", 0)
    timeline.add("a", 5, [note(5, 1), note(5, 2)])
    timeline.put(note(5, 3))

    timeline.advance(5)

    assert heard == [note(5, 1), note(5, 2), note(5, 3)]
