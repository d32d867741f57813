"""What is kept for others adds up, and the user who has most is known."""

from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.ledger import Account, Ledger

changes = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(-50, 50)))


@settings(deadline=None, database=None, derandomize=True, max_examples=200)
@given(changes)
def test_sizes_add_up_and_the_largest_user_is_known(changes: list[tuple[bytes, int]]) -> None:
    account = Account("things", 1_000, 125)
    sizes: dict[bytes, int] = {}
    for user, wanted in changes:
        difference = max(wanted, -sizes.get(user, 0))
        account.change(user, difference)
        sizes[user] = sizes.get(user, 0) + difference
        account.check()
        assert account.size == sum(sizes.values())
        largest = account.largest()
        if largest is None:
            assert not any(sizes.values())
        else:
            assert sizes[largest] == max(sizes.values()) == account.size_of(largest)


def test_many_changes_take_no_room() -> None:
    account = Account("things", 1_000, 125)
    for number in range(10_000):
        account.change(b"%d" % (number % 10), 1)

    account.largest()
    for number in range(10_000):
        account.change(b"%d" % (number % 10), 1)
    assert len(account._largest or ()) < 200


def test_a_user_may_have_an_eighth_unless_another_limit_is_given() -> None:
    ledger = Ledger()
    things, others = ledger.open("things", 80), ledger.open("others", 80, 50)

    assert list(ledger) == [things, others]
    things.change(b"a", 8)
    assert things.has_room_for(b"a", 2)
    assert not things.has_room_for(b"a", 3)
    assert things.has_room_for(b"b", 10)
    assert others.has_room_for(b"a", 50)


def test_what_fits_is_within_the_limits_of_the_user_and_of_all() -> None:
    things = Ledger().open("things", 10, 6)
    things.change(b"a", 5)
    assert [things.fits(b"a", size) for size in (1, 2)] == [True, False]
    assert [things.fits(b"b", size) for size in (5, 6)] == [True, False]
    assert things.has_room_for(b"b", 6)  # If the first makes room.
