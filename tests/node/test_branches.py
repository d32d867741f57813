"""What a rendezvous has too much of goes down branches between real nodes too."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.node.api.choices import Wait
from smartpubsub.node.identity import KEY_FILE, Identity
from smartpubsub.protocols.scoutsubs.shard_names import shard_for
from tests.node.hosts import run
from tests.node.test_node import node_in

NAME = "surf"


def publisher_of_a_branch() -> Identity:
    """Somebody whose events do not go down the attribute's own tree."""
    some = (Identity.of(bytes(31) + bytes([n])) for n in range(256))
    return next(one for one in some if shard_for(NAME, one.peer) != NAME)


def test_a_hot_attribute_is_split_and_every_event_comes_once_and_in_order(tmp_path: Path) -> None:
    identity = publisher_of_a_branch()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / KEY_FILE).write_bytes(identity.written())
    (tmp_path / "c" / KEY_FILE).chmod(0o600)

    async def main() -> None:
        async with (
            node_in(tmp_path / "a") as a,
            node_in(tmp_path / "b", a) as b,
            node_in(tmp_path / "c", a) as c,
            a.subscribe(NAME) as at_a,
            b.subscribe(NAME) as at_b,
        ):
            sent = 0
            name = NAME
            while name == NAME:
                for _ in range(50):
                    await c.publish(NAME, b"%d" % sent, wait=Wait.NOTHING)
                    await b.publish(NAME, b"of b", wait=Wait.NOTHING)
                    sent += 1
                receipt = await c.publish(NAME, b"%d" % sent)
                assert receipt.verify()
                name = receipt.held[0].attribute
                sent += 1
            assert name == shard_for(NAME, identity.peer)
            for events in (at_a, at_b):
                of_c: list[bytes] = []
                while len(of_c) < sent:
                    payload = (await anext(events)).payload
                    of_c += [payload] * (payload != b"of b")
                assert of_c == [b"%d" % n for n in range(sent)]

    run(main)
