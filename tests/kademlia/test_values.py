"""What is kept for others: only what proves itself, not for ever, and not without limit."""

import hashlib

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import Settings
from smartpubsub.kademlia.values import VALUE_BYTES, ValueStore, content_digest

SETTINGS = Settings(
    expire_us=100,
    name_bytes_max=64,
    value_bytes_max=16,
    value_count_max=2,
    provider_count_max=2,
    providers_per_name_max=2,
)
MULTIHASH = b"\x12\x20" + hashlib.sha256(b"value").digest()


EVEN = {b"even": lambda name, value: name.startswith(b"/even/") and len(value) % 2 == 0}


def store() -> ValueStore:
    return ValueStore(SETTINGS, EVEN, Ledger())


@pytest.mark.parametrize(
    "name",
    [MULTIHASH, b"\x01\x55" + MULTIHASH, b"\x01\x70" + MULTIHASH, b"\x01\x80\x01" + MULTIHASH],
    ids=["multihash", "raw", "dag-pb", "codec of two bytes"],
)
def test_a_value_under_a_content_id_has_to_hash_to_it(name: bytes) -> None:
    assert content_digest(name) == MULTIHASH[2:]
    assert store().is_valid(name, b"value")
    assert not store().is_valid(name, b"another")


@pytest.mark.parametrize(
    "name",
    [
        b"",
        MULTIHASH[:-1],
        MULTIHASH + b"x",
        b"\x02\x55" + MULTIHASH,
        b"\x13\x20" + MULTIHASH[2:],
        b"\x12\x21" + MULTIHASH[2:],
    ],
)
def test_other_names_are_no_content_ids(name: bytes) -> None:
    assert content_digest(name) is None
    assert not store().is_valid(name, b"value")


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        (b"/even/a", b"12", True),
        (b"/even/a/b", b"", True),
        (b"/even/a", b"1", False),
        (b"/odd/a", b"1", False),
        (b"/even", b"12", False),
        (b"even/a/b", b"12", False),
        (b"x/even/a", b"12", False),
    ],
)
def test_the_validator_of_its_namespace_decides_about_a_value(
    name: bytes, value: bytes, is_valid: bool
) -> None:
    assert store().is_valid(name, value) is is_valid
    assert store().put(name, value, 0, 0) is is_valid


def test_no_value_and_no_name_may_be_too_long() -> None:
    assert store().is_valid(b"/even/" + b"n" * 58, b"v" * 16)
    assert not store().is_valid(b"/even/" + b"n" * 59, b"v" * 16)
    assert not store().is_valid(b"/even/n", b"v" * 18)


def test_a_value_expires_unless_it_is_put_again() -> None:
    values = store()
    values.put(b"/even/a", b"12", 0, 0)
    values.put(b"/even/b", b"34", 0, 0)
    values.put(b"/even/b", b"34", 1, 0)
    assert values.get(b"/even/a", 99) == b"12"
    assert values.get(b"/even/b", 99) == b"34"

    assert values.get(b"/even/a", 100) is None
    assert values.get(b"/even/b", 100) == b"34"
    assert values.expire(100) == [b"/even/a"]
    assert len(values) == 1
    assert values.expire(101) == [b"/even/b"]


def test_there_is_room_for_so_many_values() -> None:
    values = store()
    assert values.put(b"/even/a", b"", 0, 0)
    assert values.put(b"/even/b", b"", 0, 0)

    assert not values.put(b"/even/c", b"", 0, 0)
    assert values.put(b"/even/a", b"12", 0, 0)
    values.expire(100)
    assert values.put(b"/even/c", b"", 100, 0)


def test_there_is_room_for_so_many_bytes_of_values() -> None:
    bytes_max = 2 * VALUE_BYTES + 30
    ledger = Ledger()
    values = ValueStore(Settings(values_bytes_max=bytes_max, expire_us=100), EVEN, ledger)
    (account,) = (each for each in ledger if each.name == "values")
    assert values.put(b"/even/a", b"12345678", 0, 0)
    assert not values.put(b"/even/b", b"12345678901234", 0, 0)
    assert values.put(b"/even/b", b"12345678", 50, 0)
    assert not values.put(b"/even/a", b"1234567890", 50, 0)
    assert values.put(b"/even/a", b"12", 0, 0)
    assert account.size == 2 * VALUE_BYTES + 24
    values.expire(100)
    assert account.size == VALUE_BYTES + 15
    assert values.put(b"/even/c", b"12345678", 100, 0)
    assert account.refused == 2
    account.check()


def test_a_peer_may_put_an_eighth_of_all_values() -> None:
    values = ValueStore(Settings(value_count_max=80), EVEN, Ledger())
    kept = [values.put(b"/even/%d" % n, b"", 0, 0, b"greedy") for n in range(20)]

    assert kept == [True] * 10 + [False] * 10
    assert values.put(b"/even/other", b"", 0, 0, b"modest")
    assert values.put(b"/even/1", b"12", 0, 0, b"modest")  # It stays a value of the first peer.
    assert not values.put(b"/even/more", b"", 0, 0, b"greedy")


def test_the_peer_that_has_put_most_makes_room_for_others() -> None:
    ledger = Ledger()
    values = ValueStore(Settings(value_count_max=16), EVEN, ledger)
    for peer in range(8):
        for number in range(2):
            assert values.put(b"/even/%d/%d" % (peer, number), b"12" * peer, 0, 0, b"%d" % peer)

    assert values.put(b"/even/new", b"", 0, 0, b"new")
    assert values.take_evicted() == [b"/even/7/0"]
    assert values.get(b"/even/7/0", 0) is None
    assert values.get(b"/even/7/1", 0) is not None
    assert (len(values), next(iter(ledger)).evicted) == (16, 1)
    assert values.put(b"/even/own", b"12" * 9, 0, 0)  # Of this node.
    assert len(values.take_evicted()) == 1


def test_a_value_is_due_once_in_each_interval() -> None:
    values = store()
    values.put(b"/even/a", b"12", 0, republish_at=10)

    assert values.due(9, 20, 9) == []
    assert values.due(10, 20, 9) == [(b"/even/a", b"12")]
    assert values.due(19, 30, 9) == []
    assert values.due(20, 30, 9) == [(b"/even/a", b"12")]


def test_providers_expire_and_have_limits() -> None:
    values = store()
    one, two, three = (Contact.of(peer) for peer in (b"one", b"two", b"three"))
    assert values.add_provider(b"name", one, 0)
    assert values.add_provider(b"name", two, 50)
    assert not values.add_provider(b"name", three, 50)
    assert values.add_provider(b"other", three, 0)
    assert not values.add_provider(b"third", three, 0)

    assert values.providers(b"name", 99) == [one, two]
    assert values.providers(b"name", 100) == [two]
    assert values.providers(b"nothing", 0) == []
    values.expire(100)
    assert values.add_provider(b"name", three, 100)
    assert values.add_provider(b"third", three, 100)
    assert values.providers(b"name", 100) == [two, three]
