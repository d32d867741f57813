"""A peer that names many unreachable peers is not heeded for a time."""

from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.hearsay import FAILURES_MAX, FAILURES_PER_S, Hearsay
from tests.node.test_dialer import address_at


def test_failures_count_against_their_source_alone() -> None:
    hearsay = Hearsay(10)
    for _ in range(FAILURES_MAX):
        assert hearsay.is_heeded(b"liar", 0.0)
        hearsay.on_failure([b"liar"], 0.0)

    assert not hearsay.is_heeded(b"liar", 0.0)
    assert hearsay.is_heeded(b"other", 0.0)


def test_a_source_is_heeded_again_after_some_time() -> None:
    hearsay = Hearsay(10)
    for _ in range(10 * FAILURES_MAX):
        hearsay.on_failure([b"liar"], 0.0)

    least_s = (1 + FAILURES_MAX) / FAILURES_PER_S
    assert not hearsay.is_heeded(b"liar", 0.9 * least_s)
    assert hearsay.is_heeded(b"liar", 1.1 * least_s)


def test_sources_of_the_same_address_share_a_failure() -> None:
    """Peers that refuse only this node do not discredit the honest peers that name them."""
    hearsay, honest = Hearsay(10), [b"a", b"b", b"c", b"d"]
    for _ in range(2 * FAILURES_MAX):
        hearsay.on_failure(honest, 0.0)

    assert all(hearsay.is_heeded(source, 0.0) for source in honest)


def test_liars_that_name_the_same_addresses_gain_nothing() -> None:
    hearsay, liars = Hearsay(10), [b"liar", b"accomplice"]
    for _ in range(2 * FAILURES_MAX):
        hearsay.on_failure(liars, 0.0)

    assert not any(hearsay.is_heeded(source, 0.0) for source in liars)


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
