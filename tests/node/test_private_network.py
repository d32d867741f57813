"""A private network: only nodes with its key connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.secret import SecretBox

from smartpubsub import Node, SmartPubSubError
from smartpubsub.node.network_key import KEY_BYTES, NetworkKey, NetworkKeyError
from smartpubsub.node.transport.private_network import NONCE_BYTES, xsalsa20
from tests.node.hosts import LOOPBACK, eventually, holds, run


@given(
    key=st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES),
    nonce=st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES),
    pieces=st.lists(st.binary(max_size=200), max_size=5),
)
def test_the_cipher_is_that_of_libsodium(key: bytes, nonce: bytes, pieces: list[bytes]) -> None:
    theirs = SecretBox(key).encrypt(b"".join(pieces), nonce).ciphertext[SecretBox.MACBYTES :]

    cipher = xsalsa20(key, nonce)
    cipher.encrypt(bytes(32))  # libsodium takes the first block for the authentication.

    assert b"".join(cipher.encrypt(piece) for piece in pieces) == theirs


def test_a_key_is_read_as_it_was_written_and_never_overwritten(tmp_path: Path) -> None:
    key, path = NetworkKey.new(), tmp_path / "swarm.key"
    key.write(path)

    assert NetworkKey.read(path) == key
    assert path.read_text() == f"/key/swarm/psk/1.0.0/\n/base16/\n{key.secret.hex()}\n"
    assert key.secret.hex() not in repr(key)
    with pytest.raises(NetworkKeyError, match="never overwritten"):
        NetworkKey.new().write(path)


@pytest.mark.parametrize(
    ("content", "mode", "complaint"),
    [
        (None, 0o600, "make a key with smartpubsub node network-key"),
        ("", 0o600, "not the key of a network"),
        ("/key/swarm/psk/1.0.0/\n/base16/\n00\n", 0o600, "64 hexadecimal digits"),
        ("/key/swarm/psk/1.0.0/\n/base64/\n" + 64 * "0", 0o600, "not the key of a network"),
        ("/key/swarm/psk/1.0.0/\n/base16/\n" + 64 * "0", 0o644, "chmod 600"),
    ],
)
def test_a_bad_key_is_an_error_that_names_the_remedy(
    content: str | None, mode: int, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "swarm.key"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)

    async def main() -> None:
        with pytest.raises(SmartPubSubError, match=complaint):
            async with Node(data=tmp_path / "a", listen=[LOOPBACK], network_key=path):
                pass

    run(main)


def test_nodes_with_the_key_exchange_events_and_others_stay_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smartpubsub.node.engine.JOIN_S_MAX", 3.0)
    keys = [tmp_path / "ours.key", tmp_path / "other.key", None]
    for path in keys[:2]:
        assert path is not None
        NetworkKey.new().write(path)

    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK], network_key=keys[0]) as a,
            Node(
                data=tmp_path / "b", listen=[LOOPBACK], network_key=keys[0], bootstrap=a.addresses
            ) as b,
            b.subscribe("surf") as events,
        ):
            await a.publish("surf", b"hello", wait="all")
            assert (await anext(aiter(events))).payload == b"hello"
            for number, key in enumerate(keys[1:]):
                async with Node(
                    data=tmp_path / f"x{number}",
                    listen=[LOOPBACK],
                    network_key=key,
                    bootstrap=a.addresses,
                ) as stranger:
                    assert await stranger.peers() == []
            await eventually(lambda: holds(a.peers(), lambda peers: len(peers) == 1))

    run(main)

    assert "is --network-key the key of their network?" in caplog.text
    assert "give its key with --network-key" in caplog.text
