"""The process of the attackers. Its arguments are the names of attacks, and the nodes' addresses.

Each attack has its own peer. The process writes a line when all attacks have begun, and ends with
its standard input, so that it never outlives its parent.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.node.transport.streams import STREAM_ERRORS
from smartpubsub.testbed.hostile.attacks import keep_to_share, run_attack

AGAIN_S = 1.0


async def _attack_again_and_again(
    name: str, targets: Sequence[Contact], on_connected: Callable[[], None]
) -> None:
    while True:
        try:
            await run_attack(name, targets, on_connected)
        except* (SmartPubSubError, *STREAM_ERRORS):
            await trio.sleep(AGAIN_S)  # The nodes have disconnected the peer.


async def _main(names: Sequence[str], addresses: Sequence[str]) -> None:
    targets = [contact_at(address) for address in addresses]
    missing = dict.fromkeys(names)

    def note_begun(name: str) -> None:
        if name in missing:
            del missing[name]
            if not missing:
                os.write(sys.stdout.fileno(), b"\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_to_share)
        for name in names:
            nursery.start_soon(_attack_again_and_again, name, targets, partial(note_begun, name))
        await trio.lowlevel.wait_readable(sys.stdin.fileno())
        os._exit(0)  # Attackers say no goodbye.


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    trio.run(_main, sys.argv[1].split(","), sys.argv[2:])
