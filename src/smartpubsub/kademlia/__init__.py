"""Kademlia: who lies closest to a name, and what is kept there.

`Kademlia` is the core; `encode` and `decode` are how its messages travel between real nodes.
"""

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.settings import Settings
from smartpubsub.kademlia.wire import WireError, decode, encode

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
