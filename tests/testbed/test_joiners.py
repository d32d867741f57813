"""As many nodes join at a time as the machine can bear."""

from smartpubsub.testbed.joiners import AT_ONCE_MAX, QUICK_US, SLOW_US, Joiners


def joined_after(joiners: Joiners, node: int, us: int) -> int:
    joiners.start(node, 0)
    joiners.look({node}, us)
    return joiners.at_once


def test_more_join_at_once_while_it_is_quick_and_fewer_when_it_is_slow() -> None:
    joiners = Joiners()
    quick = [joined_after(joiners, node, QUICK_US - 1) for node in range(10)]
    assert quick == [2, 3, 4, 5, 6, 7, AT_ONCE_MAX, AT_ONCE_MAX, AT_ONCE_MAX, AT_ONCE_MAX]

    assert joined_after(joiners, 11, (QUICK_US + SLOW_US) // 2) == AT_ONCE_MAX
    slow = [joined_after(joiners, node, SLOW_US + 1) for node in range(12, 17)]
    assert slow == [4, 2, 1, 1, 1]


def test_who_has_not_joined_says_nothing() -> None:
    joiners = Joiners()
    joiners.start(1, 0)
    joiners.look((), 10 * SLOW_US)

    assert joiners.at_once == 1
