"""Kademlia: finds the nodes closest to a name, and stores values there.

`Kademlia` is the core; `encode` and `decode` are the wire format of its messages.
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
