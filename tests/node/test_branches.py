"""What a rendezvous has too much of goes down branches between real nodes too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.node.identity import KEY_FILE, Identity
from smartpubsub.protocols.scoutsubs import spec
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings, settings_for
from smartpubsub.protocols.scoutsubs.shard_names import shard_for
from tests.node.hosts import eventually, run
from tests.node.test_node import node_in

NAME = "surf"
HOT_COPIES_PER_S = 4
"""Few, because a busy machine publishes slowly."""


def publisher_of_a_branch() -> Identity:
    """A publisher whose events do not go down the attribute's own tree."""
    some = (Identity.of(bytes(31) + bytes([n])) for n in range(256))
    return next(one for one in some if shard_for(NAME, one.peer) != NAME)


def soon_hot(variant: str, backups: int) -> ScoutSettings:
    return replace(settings_for(variant, backups), hot_copies_per_s=HOT_COPIES_PER_S)


def test_a_hot_attribute_is_split_and_every_event_comes_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "settings_for", soon_hot)
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
            payloads: dict[EventStream, list[bytes]] = {at_a: [], at_b: []}

            async def read(events: EventStream) -> None:
                async for event in events:
                    if event.payload != b"of b":
                        payloads[events].append(event.payload)

            async with trio.open_nursery() as nursery:
                # A slow machine needs many rounds to make the attribute hot. A subscription that
                # is read only afterwards drops its oldest events.
                for events in payloads:
                    nursery.start_soon(read, events)
                while name == NAME:
                    for _ in range(50):
                        await c.publish(NAME, b"%d" % sent, wait=Wait.NOTHING)
                        await b.publish(NAME, b"of b", wait=Wait.NOTHING)
                        sent += 1
                    receipt = await c.publish(NAME, b"%d" % sent)
                    assert receipt.verify()
                    name = receipt.held[0].attribute
                    sent += 1
                await eventually(lambda: all(len(got) >= sent for got in payloads.values()))
                nursery.cancel_scope.cancel()
            assert name == shard_for(NAME, identity.peer)
            assert list(payloads.values()) == [[b"%d" % n for n in range(sent)]] * 2

    run(main)
