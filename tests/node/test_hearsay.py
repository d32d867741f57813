"""A peer that names many unreachable peers is not heeded for a time."""

from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.hearsay import FAILURES_MAX, FAILURES_PER_S, Hearsay
from tests.node.test_dialer import address_at


def test_failures_count_against_their_source_alone() -> None:
    hearsay = Hearsay(10)
    for _ in range(FAILURES_MAX):
        assert hearsay.is_heeded(b"liar", 0.0)
        hearsay.on_failure(b"liar", 0.0)

    assert not hearsay.is_heeded(b"liar", 0.0)
    assert hearsay.is_heeded(b"other", 0.0)


def test_a_source_is_heeded_again_after_some_time() -> None:
    hearsay = Hearsay(10)
    for _ in range(10 * FAILURES_MAX):
        hearsay.on_failure(b"liar", 0.0)

    assert not hearsay.is_heeded(b"liar", 0.9 / FAILURES_PER_S)
    assert hearsay.is_heeded(b"liar", 1.1 / FAILURES_PER_S)


def test_no_peer_is_the_source_of_what_a_peer_says_about_itself() -> None:
    book = AddressBook(10, 10, 100)
    book.hear(b"peer", [address_at(1_001)], b"source")
    book.hear(b"peer", [address_at(1_002)])
    assert book.sources_of(b"peer", address_at(1_001)) == [b"source"]
    assert book.sources_of(b"peer", address_at(1_002)) == []

    book.learn(b"peer", [address_at(1_003)])
    assert book.sources_of(b"peer", address_at(1_001)) == []


def test_a_source_answers_for_its_own_addresses_alone() -> None:
    book = AddressBook(10, 10, 100)
    book.hear(b"peer", [address_at(1_001), address_at(1_002)], b"liar")
    book.hear(b"peer", [address_at(1_002)], b"honest")

    assert book.sources_of(b"peer", address_at(1_001)) == [b"liar"]
    assert set(book.sources_of(b"peer", address_at(1_002))) == {b"liar", b"honest"}
