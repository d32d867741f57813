"""Kademlia: finds the nodes closest to a name, and stores values there.

`core` is a node's place in the overlay.

- Lookups: one `lookup`, and the `queries` that nodes make by it. Open requests: `asks`.
- The routing `table`, its `refresh`, and the proof of work of the peers in it (`id_work`).
- What a node answers (`serving`) and stores for others (`values`, `ledger`).
- What it suspects peers of, in all protocols (`blame`).
- `keys`, `messages`, `protobuf`, `settings`.
"""

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Kind, Message, Record, decode, encode
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.kademlia.settings import Settings

__all__ = [
    "Contact",
    "Kademlia",
    "Kind",
    "Message",
    "Record",
    "Settings",
    "WireError",
    "decode",
    "encode",
    "key_of",
]
