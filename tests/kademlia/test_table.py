"""The routing table against a list of everything that it should know."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.table import RoutingTable

K = 2
FAILURES_MAX = 2
BITS = 5

OWN = 0b10110
keys = st.integers(0, 2**BITS - 1).filter(lambda key: key != OWN)
steps = st.lists(
    st.tuples(st.sampled_from(["heard", "heard", "heard", "failed", "wait"]), keys), max_size=60
)


def contact(key: int, *addresses: bytes) -> Contact:
    """A contact at a place of the test's choice, which no hash would give."""
    return Contact(b"peer %d" % key, key, addresses, wire_bytes=0)


class Oracle:
    """Each bucket as a plain list of [key, failures], heard from longest ago first."""

    def __init__(self) -> None:
        self.buckets: dict[int, list[list[int]]] = {}

    def bucket(self, key: int) -> list[list[int]]:
        return self.buckets.setdefault((key ^ OWN).bit_length(), [])

    def heard(self, key: int) -> bool:
        bucket = self.bucket(key)
        known = [entry for entry in bucket if entry[0] == key]
        if not known and len(bucket) == K:
            return False
        for entry in known:
            bucket.remove(entry)
        bucket.append([key, 0])
        return True

    def failed(self, key: int) -> None:
        bucket = self.bucket(key)
        for entry in list(bucket):
            if entry[0] == key:
                entry[1] += 1
                if entry[1] == FAILURES_MAX:
                    bucket.remove(entry)

    def entries(self) -> list[list[int]]:
        return [entry for bucket in self.buckets.values() for entry in bucket]


@given(steps, st.integers(0, 2**BITS - 1), st.integers(0, 12))
def test_the_table_knows_what_a_naive_list_knows(
    happenings: list[tuple[str, int]], target: int, count: int
) -> None:
    table, oracle = RoutingTable(OWN, K), Oracle()

    for now, (what, key) in enumerate(happenings):
        match what:
            case "heard":
                assert table.heard_from(contact(key), now) == oracle.heard(key)
            case "failed":
                table.failed(contact(key), FAILURES_MAX)
                oracle.failed(key)
            case _:
                table.wait(contact(key))

        assert len(table) == len(oracle.entries())
        assert all(len(bucket.entries) <= K for bucket in table.buckets.values())
        assert all(len(bucket.waiting) <= K for bucket in table.buckets.values())
        if what == "heard" and contact(key) in table:
            assert contact(key).peer not in table.buckets[table.index(key)].waiting
        oldest = table.oldest(key)
        assert (oldest.contact.key if oldest else None) == next(
            (entry[0] for entry in oracle.bucket(key)), None
        )

    fresh = sorted((e[0] for e in oracle.entries() if not e[1]), key=lambda key: key ^ target)
    assert [found.key for found in table.closest(target, count)] == fresh[:count]
    assert {found.key for found in table.closest_in_any_order(target)} == set(fresh[:K])
    suspects = {entry[0] for entry in oracle.entries() if entry[1]}
    assert {found.key for found in table.suspects()} == suspects
    for key in range(2**BITS):
        known = [entry[1] for entry in oracle.entries() if entry[0] == key]
        assert (contact(key) in table) == bool(known)
        assert table.is_trusted(contact(key)) == (known == [0])
        assert table.has_room(key) == (len(oracle.bucket(key)) < K)


@given(st.sets(keys), keys)
def test_whoever_is_said_to_be_closest_is(known: set[int], target: int) -> None:
    table = RoutingTable(OWN, K)
    everybody = [key for key in sorted(known) if table.heard_from(contact(key), 0)]

    said = table.is_closest(target)

    # Where a bucket is full somebody may be missing, so only what is said counts.
    if said is not None:
        assert said == all(key ^ target > OWN ^ target for key in known)
    elif len(everybody) == len(known):
        assert not any(key ^ target < OWN ^ target for key in known)


def test_nobody_is_said_to_be_closest_while_somebody_closer_is_suspected() -> None:
    table = RoutingTable(0, k=1)
    table.heard_from(contact(0b100), 0)
    table.heard_from(contact(0b001), 0)
    assert table.is_closest(0b001) is False

    table.failed(contact(0b001), FAILURES_MAX)
    assert table.is_closest(0b001) is None

    table.failed(contact(0b001), FAILURES_MAX)
    assert table.is_closest(0b001) is True


def test_a_failure_leaves_answers_at_once_and_the_table_at_the_limit() -> None:
    table = RoutingTable(0, K)
    table.heard_from(contact(5), 0)

    table.failed(contact(5), 3)
    table.failed(contact(5), 3)
    assert table.closest(5, K) == []
    assert contact(5) in table

    table.failed(contact(5), 3)
    assert contact(5) not in table
    assert len(table) == 0


def test_an_answer_makes_up_for_failures() -> None:
    table = RoutingTable(0, K)
    table.heard_from(contact(5), 0)
    table.failed(contact(5), 2)

    table.heard_from(contact(5), 1)
    table.failed(contact(5), 2)

    assert contact(5) in table


def test_whoever_waits_takes_the_place_of_one_that_failed_the_last_heard_of_first() -> None:
    table = RoutingTable(0, K)
    for key in (4, 5):
        table.heard_from(contact(key), 0)
    for key in (6, 7):
        assert not table.heard_from(contact(key), 0)

    assert table.failed(contact(4), 1) == contact(7)


def test_the_next_who_waits_is_tried_when_a_replacement_fails() -> None:
    table = RoutingTable(0, K)
    for key in (4, 5, 6, 7):
        table.heard_from(contact(key), 0)
    replacement = table.failed(contact(4), 1)
    assert replacement == contact(7)

    assert table.failed(replacement, 1) == contact(6)
    assert table.failed(contact(6), 1) is None


def test_nobody_is_promoted_into_a_full_bucket() -> None:
    table = RoutingTable(0, K)
    for key in (4, 5, 6):
        table.heard_from(contact(key), 0)

    assert table.failed(contact(7), 1) is None


def test_a_peer_that_answers_is_no_longer_the_oldest() -> None:
    table = RoutingTable(0, K)
    table.heard_from(contact(4), 0)
    table.heard_from(contact(5), 1)

    table.heard_from(contact(4), 2)

    oldest = table.oldest(6)
    assert oldest is not None
    assert (oldest.contact.key, oldest.heard_at) == (5, 1)


def test_addresses_that_work_are_kept_whatever_others_say() -> None:
    table = RoutingTable(0, K)
    table.heard_from(contact(4, b"here"), 0)

    table.heard_from(contact(4), 1)
    assert table.closest(4, 1) == [contact(4, b"here")]

    table.heard_from(contact(4, b"there"), 2)
    assert table.closest(4, 1) == [contact(4, b"here")]
