"""Content-based publish/subscribe without a broker.

Names are imported on first use: a program that only publishes waits for nothing else.
"""

TYPE_CHECKING = False  # Importing it from typing takes longer than all of this.
if TYPE_CHECKING:
    from typing import Any

    from smartpubsub.client.blocking import BlockingClient
    from smartpubsub.client.client import Client
    from smartpubsub.client.connect import connect
    from smartpubsub.client.embedded import AsyncioNode, SyncNode
    from smartpubsub.errors import SmartPubSubError
    from smartpubsub.node.api.choices import Overflow, Wait
    from smartpubsub.node.api.circle import Circle
    from smartpubsub.node.api.events import Entry, Event
    from smartpubsub.node.api.group import Group
    from smartpubsub.node.api.interface import NodeInterface
    from smartpubsub.node.api.listing import EventInfo, EventState, SubscriptionInfo
    from smartpubsub.node.api.node import Node
    from smartpubsub.node.api.payloads import PayloadError, Serializer
    from smartpubsub.node.api.receipts import Receipt, ReceiptError
    from smartpubsub.node.api.sealed import Sealed
    from smartpubsub.node.api.subscription import EventStream, TopicStream
    from smartpubsub.node.api.topic import Topic
    from smartpubsub.node.api.topic_rules import RulesError
    from smartpubsub.node.configuration import ConfigError
    from smartpubsub.node.errors import (
        ChoiceError,
        ControlError,
        EventRefusedError,
        KeyConflictError,
        LimitError,
        LostNodeError,
        NodeClosedError,
        NodeError,
        NoNodeError,
        NoSubscriptionError,
        NotInTimeError,
        NoTopicError,
        NotOwnerError,
        NotPromisedError,
        OverflowedError,
        PublishError,
        PublishNotInTimeError,
        PublishRefusedError,
        TooFewReplicasError,
    )
    from smartpubsub.node.storage.folder import FolderInUseError
    from smartpubsub.predicates import Interval, Predicate, PredicateError

__all__ = [
    "AsyncioNode",
    "BlockingClient",
    "ChoiceError",
    "Circle",
    "Client",
    "ConfigError",
    "ControlError",
    "Entry",
    "Event",
    "EventInfo",
    "EventRefusedError",
    "EventState",
    "EventStream",
    "FolderInUseError",
    "Group",
    "Interval",
    "KeyConflictError",
    "LimitError",
    "LostNodeError",
    "NoNodeError",
    "NoSubscriptionError",
    "NoTopicError",
    "Node",
    "NodeClosedError",
    "NodeError",
    "NodeInterface",
    "NotInTimeError",
    "NotOwnerError",
    "NotPromisedError",
    "Overflow",
    "OverflowedError",
    "PayloadError",
    "Predicate",
    "PredicateError",
    "PublishError",
    "PublishNotInTimeError",
    "PublishRefusedError",
    "Receipt",
    "ReceiptError",
    "RulesError",
    "Sealed",
    "Serializer",
    "SmartPubSubError",
    "SubscriptionInfo",
    "SyncNode",
    "TooFewReplicasError",
    "Topic",
    "TopicStream",
    "Wait",
    "connect",
]

_NAMES = {
    "client.blocking": "BlockingClient",
    "client.client": "Client",
    "client.connect": "connect",
    "client.embedded": "AsyncioNode SyncNode",
    "errors": "SmartPubSubError",
    "node.api.choices": "Overflow Wait",
    "node.api.circle": "Circle",
    "node.api.events": "Entry Event",
    "node.api.group": "Group",
    "node.api.interface": "NodeInterface",
    "node.api.listing": "EventInfo EventState SubscriptionInfo",
    "node.api.node": "Node",
    "node.api.payloads": "PayloadError Serializer",
    "node.api.receipts": "Receipt ReceiptError",
    "node.api.sealed": "Sealed",
    "node.api.subscription": "EventStream TopicStream",
    "node.api.topic": "Topic",
    "node.api.topic_rules": "RulesError",
    "node.configuration": "ConfigError",
    "node.errors": (
        "ChoiceError ControlError EventRefusedError KeyConflictError LimitError LostNodeError"
        " NoNodeError NoSubscriptionError NoTopicError NodeClosedError NodeError NotInTimeError"
        " NotOwnerError NotPromisedError OverflowedError PublishError PublishNotInTimeError"
        " PublishRefusedError TooFewReplicasError"
    ),
    "node.storage.folder": "FolderInUseError",
    "predicates": "Interval Predicate PredicateError",
}
_PLACES = {name: place for place, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "matching":
        return import_module("smartpubsub.matching")
    if name not in _PLACES:
        raise AttributeError(f"module 'smartpubsub' has no attribute {name!r}")
    try:
        found = getattr(import_module(f"smartpubsub.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        from smartpubsub.extras import remedy

        raise ModuleNotFoundError(f"{name}: {remedy(error)}", name=error.name) from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
