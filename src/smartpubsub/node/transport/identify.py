"""libp2p's identify protocol: a peer's addresses and protocols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from typing import NamedTuple

from libp2p.identity.identify.pb.identify_pb2 import Identify

from smartpubsub.kademlia.protobuf import WireError, framed, parsed, unframed
from smartpubsub.node.transport.frames import FrameReader, Readable

PROTOCOL = "/ipfs/id/1.0.0"
_VERSION = "ipfs/0.1.0"
_ADDRESSES_READ_MAX = 64
_PROTOCOLS_READ_MAX = 64
_OURS = "/smartpubsub/"


@cache
def _agent() -> str:
    """The agent version of this program; cached, because it is read from a file."""
    return f"smartpubsub/{metadata.version('smartpubsub')}"


def written(
    public_key: bytes, addresses: Sequence[bytes], protocols: Sequence[str], observed: bytes
) -> bytes:
    """Make this node's identify message, with the observed address of the peer."""
    said = Identify(
        protocol_version=_VERSION,
        agent_version=_agent(),
        public_key=public_key,
        listen_addrs=addresses,
        observed_addr=observed,
        protocols=protocols,
    )
    return framed(said.SerializeToString())


class Identified(NamedTuple):
    """A peer's identify message."""

    addresses: tuple[bytes, ...] = ()
    protocols: tuple[str, ...] = ()


async def read(stream: Readable, bytes_max: int) -> Identified:
    """Read an identify message."""
    frame = await FrameReader(stream, bytes_max).next()
    if frame is None:
        return Identified()
    said = parsed(Identify, unframed(frame, bytes_max), "identify message")
    try:
        protocols = tuple(said.protocols[:_PROTOCOLS_READ_MAX])
    except UnicodeDecodeError as error:  # Protobuf checks the text when it is accessed.
        raise WireError("a protocol id that is no text") from error
    return Identified(tuple(said.listen_addrs[:_ADDRESSES_READ_MAX]), protocols)


def other_versions(own: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """The protocols of this project that a peer speaks in another version only.

    >>> other_versions(["/smartpubsub/kad/2.0.0"], ["/smartpubsub/kad/1.0.0", "/ipfs/id/1.0.0"])
    ['/smartpubsub/kad/1.0.0']
    >>> other_versions(["/smartpubsub/kad/2.0.0"], ["/smartpubsub/kad/2.0.0"])
    []
    """
    names = dict(protocol.rpartition("/")[::2] for protocol in own if protocol.startswith(_OURS))
    spoken = set(theirs)
    return [
        protocol
        for protocol in sorted(spoken)
        if (name := protocol.rpartition("/")[0]) in names and f"{name}/{names[name]}" not in spoken
    ]
