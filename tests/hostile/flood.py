"""A peer at its worst within the rules, as a process of its own: `flood ADDRESS KIND`.

It writes as fast as the node reads, until it is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.identity import Identity
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import STREAM_ERRORS, UnreachableError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, Bundle, Probe, encode
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from tests.node.hosts import connections

Frames = Iterator[bytes]


def probes() -> Frames:
    """Probes that want answers."""
    number = 0
    while True:
        yield encode(Bundle(tuple(Probe(number + step) for step in range(500))))
        number += 500


def attributes() -> Frames:
    """Filters under ten thousand attributes, a hundred at a time, announced over and over."""
    frames = [
        encode(
            Bundle(
                tuple(
                    _announce(f"a{number}", 1, [f"a{number}"])
                    for number in range(first, first + 100)
                )
            )
        )
        for first in range(0, 10_000, 100)
    ]
    while True:
        yield from frames


def filters() -> Frames:
    """Touching filters, of which half are withdrawn one by one."""
    version = 1
    wanted = [f"x[{number},{number + 1}]" for number in range(700)]
    yield encode(Bundle((_announce("x", version, wanted),)))
    while True:
        for number in range(0, 700, 2):
            for removed in (True, False):
                version += 1
                changed = [f"x[{number},{number + 1}]"]
                yield encode(Bundle((_change("x", version, changed, removed=removed),)))


def empty() -> Frames:
    """Frames of one byte, which contain nothing."""
    while True:
        yield bytes(1_000)


def _announce(attribute: str, version: int, wanted: list[str]) -> Announce:
    added = tuple(map(Predicate.parse, wanted))
    return Announce(attribute, 1, version, WHOLE, added, (), None, (), False)


def _change(attribute: str, version: int, texts: list[str], *, removed: bool) -> Announce:
    changed = tuple(map(Predicate.parse, texts))
    added, gone = ((), changed) if removed else (changed, ())
    return Announce(attribute, 1, version, version - 1, added, gone, None, (), False)


FLOODS = {flood.__name__: flood for flood in (probes, attributes, filters, empty)}


async def flood(target: Contact, kind: str) -> None:
    identity = Identity.new()
    frames = FLOODS[kind]()
    settings = HostSettings(write_s=600.0)
    async with connections(settings, identity) as made:
        while True:
            try:
                await made.dial(target.peer, target.addresses[0])
                stream = await made.open(target.peer, SCOUTSUBS)
                sys.stdout.write("flooding\n")
                sys.stdout.flush()
                while True:
                    await stream.write(next(frames))
            except (*STREAM_ERRORS, UnreachableError):
                await trio.sleep(0.1)


if __name__ == "__main__":
    trio.run(flood, contact_at(sys.argv[1]), sys.argv[2])
