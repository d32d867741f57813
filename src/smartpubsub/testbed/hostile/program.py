"""The process of the attackers. Its arguments are the names of attacks, and the nodes' addresses.

Each attack has a peer of its own. The process ends when its standard input does, so that it never
outlives the process that has started it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.node.transport.streams import STREAM_ERRORS
from smartpubsub.testbed.hostile.attacks import run_attack

AGAIN_S = 1.0


async def _attack_again_and_again(name: str, targets: Sequence[Contact]) -> None:
    while True:
        try:
            await run_attack(name, targets)
        except* (SmartPubSubError, *STREAM_ERRORS):
            await trio.sleep(AGAIN_S)  # It was thrown out; another peer goes on.


async def _main(names: Sequence[str], addresses: Sequence[str]) -> None:
    targets = [contact_at(address) for address in addresses]
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(_attack_again_and_again, name, targets)
        await trio.lowlevel.wait_readable(sys.stdin.fileno())
        os._exit(0)  # An attacker says no goodbye.


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    trio.run(_main, sys.argv[1].split(","), sys.argv[2:])
