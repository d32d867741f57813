"""What a node suspects peers of decides whom it chooses, and fades."""

from smartpubsub.kademlia.blame import (
    AVOIDED_LEVEL,
    COUNT_MAX,
    DROPPED,
    EVERY_US,
    HALF_US,
    POINTS_MAX,
    WITHHELD,
    Blame,
)

PREFIXES = {b"near": "192.0.2.0/24", b"also": "192.0.2.0/24"}


def blame_without_prefixes() -> Blame:
    return Blame(lambda _: "")


def put(blame: Blame, peer: bytes, times: int, now: int = 0) -> int:
    """Blame a peer as often as it counts; the time of the last."""
    for _ in range(times):
        blame.put(peer, DROPPED, now)
        now += EVERY_US
    return now - EVERY_US


def test_points_halve_with_every_hour() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"a", 8)

    assert [blame.level(b"a", at + n * HALF_US) for n in range(5)] == [8, 4, 2, 1, 0]
    assert blame.level(b"a", at + HALF_US // 2) == 6
    assert blame.level(b"b", at) == 0


def test_many_events_of_one_moment_count_once() -> None:
    blame = blame_without_prefixes()
    for _ in range(100):
        blame.put(b"a", DROPPED, 0)
    blame.put(b"a", WITHHELD, EVERY_US - 1)

    assert blame.level(b"a", 0) == 1
    assert blame.states(0)[0].reasons == {DROPPED: 100, WITHHELD: 1}


def test_points_have_a_limit() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"a", 3 * POINTS_MAX)

    assert blame.level(b"a", at) == POINTS_MAX


def test_a_peer_that_was_only_slow_gets_its_point_back() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"a", 2)
    blame.take_back(b"a", at)
    assert blame.level(b"a", at) == 1
    blame.take_back(b"a", at)
    blame.take_back(b"a", at)
    assert len(blame) == 0


def test_peers_with_the_prefix_of_blamed_ones_are_blamed_too() -> None:
    blame = Blame(lambda peer: PREFIXES.get(peer, ""))
    at = put(blame, b"near", 8)

    assert [blame.level(peer, at) for peer in (b"near", b"also", b"far")] == [8, 2, 0]


def test_the_least_blamed_come_first_and_the_others_keep_their_order() -> None:
    blame = blame_without_prefixes()
    assert blame.least_first([b"a", b"b"], 0, bytes) == [b"a", b"b"]
    at = put(blame, b"b", 2)
    put(blame, b"d", 1, at)

    peers = [b"a", b"b", b"c", b"d"]
    assert blame.least_first(peers, at, bytes) == [b"a", b"c", b"d", b"b"]
    assert blame.unblamed(peers, at) == [b"a", b"c"]
    assert blame.unblamed([b"b", b"d"], at) == [b"b", b"d"]


def test_a_peer_is_avoided_only_for_one_that_is_much_better() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"a", AVOIDED_LEVEL - 1)
    assert not blame.is_avoided(b"a", at, b"b")
    at = put(blame, b"a", 1, at + EVERY_US)
    assert blame.is_avoided(b"a", at, b"b")
    put(blame, b"b", 2, at - EVERY_US)
    assert not blame.is_avoided(b"a", at, b"b")


def test_what_is_stored_is_the_same_after_a_restart() -> None:
    blame = Blame(lambda peer: PREFIXES.get(peer, ""))
    at = put(blame, b"near", 4)
    put(blame, b"old", 1, at - 20 * HALF_US)
    assert blame.has_changed

    again = blame_without_prefixes()
    again.restore(blame.stored(at))

    assert not blame.has_changed
    assert again.states(at + HALF_US) == blame.states(at + HALF_US)
    assert [state.blamed for state in again.states(at)] == [b"near", "192.0.2.0/24"]


def test_whoever_has_least_makes_room() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"worst", 2)
    for number in range(2 * COUNT_MAX):
        blame.put(b"%d" % number, DROPPED, at)
    blame.check()

    assert len(blame) == COUNT_MAX
    assert blame.level(b"worst", at) == 2


def test_a_clock_that_is_set_back_forgives_nothing() -> None:
    blame = blame_without_prefixes()
    at = put(blame, b"a", 2, 10 * HALF_US)

    assert blame.level(b"a", at - 5 * HALF_US) == 2


def test_blame_from_a_clock_that_was_ahead_expires() -> None:
    year_us = 365 * 24 * HALF_US
    before, after = blame_without_prefixes(), blame_without_prefixes()
    ahead = put(before, b"a", 8, now=year_us)
    after.restore(before.stored(ahead))

    assert [after.level(b"a", n * HALF_US) for n in range(5)] == [8, 4, 2, 1, 0]
