"""Content-based publish/subscribe without a broker."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Interval, Predicate, PredicateError

if TYPE_CHECKING:
    from smartpubsub.node.api.asyncio_bridge import AsyncioNode
    from smartpubsub.node.api.node import Node
    from smartpubsub.node.api.sync import SyncNode

__all__ = [
    "AsyncioNode",
    "Interval",
    "Node",
    "Predicate",
    "PredicateError",
    "SmartPubSubError",
    "SyncNode",
]

_NODES = {"Node": "node", "AsyncioNode": "asyncio_bridge", "SyncNode": "sync"}


def __getattr__(name: str) -> Any:
    # Arrow and libp2p are slow to import, so they are imported on first use.
    if name == "matching":
        return import_module("smartpubsub.matching")
    if name in _NODES:
        return getattr(import_module(f"smartpubsub.node.api.{_NODES[name]}"), name)
    raise AttributeError(f"module 'smartpubsub' has no attribute {name!r}")
