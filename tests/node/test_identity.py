"""A node's key is made once, kept secret, and readable for everybody who knows libp2p's form."""

import doctest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID

from smartpubsub.kademlia.id_work import has_work
from smartpubsub.node import identity as identities
from smartpubsub.node.identity import (
    KEY_FILE,
    Identity,
    IdentityError,
    identity_in,
    keep_identity,
    peer_text,
    public_key_in,
)
from smartpubsub.sim.kernel.population import peer_id
from tests.node.ordinary_user import as_ordinary_user, read_only_folder

REPEATABLE = settings(deadline=None, database=None, derandomize=True)

LIBP2P_KEY = bytes.fromhex(
    "080112407e0830617c4a7de83925dfb2694556b12936c477a0e1feb2e148ec9da60fee7d"
    "1ed1e8fae2c4a144b8be8fd4b47bf3d3b34b871c3cacf6010f0e42d474fce27e"
)
"""The example in libp2p's description of peer ids, and the id that libp2p makes of it."""
LIBP2P_PEER = "12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq"


def test_docstring_examples_hold() -> None:
    results = doctest.testmod(identities)

    assert (results.attempted, results.failed) == (1, 0)


def test_libp2ps_own_example_is_read_and_written() -> None:
    identity = Identity.read(LIBP2P_KEY)

    assert str(identity) == LIBP2P_PEER
    assert identity.written() == LIBP2P_KEY


@settings(REPEATABLE, max_examples=20)
@given(st.binary(min_size=32, max_size=32))
def test_py_libp2p_makes_the_same_of_a_seed(seed: bytes) -> None:
    identity = Identity.of(seed)
    pair = create_new_key_pair(seed)

    assert ID.from_pubkey(pair.public_key).to_bytes() == identity.peer
    assert ID.from_pubkey(pair.public_key).to_base58() == str(identity)
    assert Identity.read(pair.private_key.serialize()) == identity


def test_all_forms_of_a_key_give_one_identity() -> None:
    seed, public = LIBP2P_KEY[4:36], LIBP2P_KEY[36:]

    assert Identity.read(b"\x08\x01\x12\x20" + seed).written() == LIBP2P_KEY
    assert Identity.read(b"\x08\x01\x12\x60" + seed + public * 2).written() == LIBP2P_KEY


def test_a_peer_id_holds_the_public_key() -> None:
    identity = Identity.new()

    assert public_key_in(identity.peer) == identity.written()[-32:]
    assert len(identity.peer) == len(peer_id(1, 1))
    assert identity.peer[:6] == peer_id(1, 1)[:6]
    assert peer_text(identity.peer) == str(identity)


@pytest.mark.parametrize(
    "peer", [b"", peer_id(1, 1)[:-1], peer_id(1, 1) + b"\0", b"\x12\x20" + bytes(32)]
)
def test_other_peer_ids_hold_none(peer: bytes) -> None:
    assert public_key_in(peer) is None


def test_the_secret_does_not_show() -> None:
    identity = Identity.read(LIBP2P_KEY)

    assert repr(identity.seed) not in repr(identity)
    assert identity.seed.hex() not in f"{identity}"


def test_a_folder_keeps_its_identity(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    first = identity_in(folder)

    assert identity_in(folder) == first
    assert identity_in(tmp_path / "another") != first
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_who_comes_second_takes_what_the_first_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / KEY_FILE).write_bytes(LIBP2P_KEY)
    (tmp_path / KEY_FILE).chmod(0o600)
    monkeypatch.setattr(Path, "exists", lambda _: False)

    assert str(identity_in(tmp_path)) == LIBP2P_PEER
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_open_is_refused(mode: int, tmp_path: Path) -> None:
    identity_in(tmp_path)
    path = tmp_path / KEY_FILE
    path.chmod(mode)

    with pytest.raises(IdentityError) as caught:
        identity_in(tmp_path)

    assert str(caught.value) == (
        f"{path} can be opened by others (mode {mode:04o}), and a secret key must not be;"
        f" chmod 600 {path}"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no Ed25519 key as libp2p writes it"),
        (LIBP2P_KEY[:-1], "no Ed25519 key as libp2p writes it"),
        (LIBP2P_KEY + b"\n", "no Ed25519 key as libp2p writes it"),
        (b"\x08\x00" + LIBP2P_KEY[2:], "no Ed25519 key as libp2p writes it"),
        (LIBP2P_KEY * 100, "no Ed25519 key as libp2p writes it"),
        (b"\x08\x01\x12\x05short", "an Ed25519 key that is too short"),
        (LIBP2P_KEY[:-1] + b"\0", "an Ed25519 key whose two halves do not belong together"),
    ],
)
def test_a_damaged_key_is_refused_and_stays(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / KEY_FILE
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(IdentityError) as caught:
        identity_in(tmp_path)

    assert str(caught.value) == (
        f"{path}: {problem}; put a backup in its place, or move it away to get a new peer id"
    )
    assert path.read_bytes() == content


@settings(REPEATABLE)
@given(st.binary(max_size=120) | st.binary(max_size=120).map(lambda rest: LIBP2P_KEY[:4] + rest))
def test_garbage_is_an_error_and_nothing_else(content: bytes) -> None:
    with pytest.raises(IdentityError):
        Identity.read(content)


@settings(REPEATABLE)
@given(st.binary(min_size=32, max_size=32))
def test_what_was_written_is_read(seed: bytes) -> None:
    assert Identity.read(Identity.of(seed).written()) == Identity.of(seed)


def test_a_folder_without_a_key_that_cannot_be_written_to_is_named() -> None:
    with read_only_folder() as folder:
        with as_ordinary_user(), pytest.raises(IdentityError) as caught:
            identity_in(folder)
        assert str(caught.value).startswith(f"{folder / KEY_FILE}: Permission denied; a node has")
        assert [*folder.iterdir()] == []


def test_a_folder_in_place_of_the_key_is_named(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir()

    with pytest.raises(IdentityError, match=r"identity\.key: Is a directory; a node has to read"):
        identity_in(tmp_path)


def test_an_identity_has_the_proof_of_work_that_a_network_asks_for(tmp_path: Path) -> None:
    made = identity_in(tmp_path / "new", 6)
    assert has_work(made.peer, 6)
    assert identity_in(tmp_path / "new", 6) == made

    while has_work((idle := Identity.new()).peer, 6):
        pass
    keep_identity(tmp_path / "old", idle)
    with pytest.raises(
        IdentityError, match=r"id_work_bits = 6 asks for; move it away to get a new"
    ):
        identity_in(tmp_path / "old", 6)
