"""Converts the documents of the control socket to the types of the API."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import base58

from smartpubsub.node.api.events import Entry, Event, time_of
from smartpubsub.node.api.listing import (
    EventInfo,
    EventState,
    FoundGroup,
    Gaps,
    JoinRequest,
    KnownGroup,
    KnownTopic,
    Stock,
    SubscriptionInfo,
)
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.receipts import read_held
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import time_from_text
from smartpubsub.protocols.publication import EventId, Publication, event_id_from_text
from smartpubsub.protocols.pubsub import SubscriptionState
from smartpubsub.protocols.pulsarcast import topics as descriptors

ATTRIBUTES_MAX = 1_000
"""The highest limit; the node checks its own, which may be lower."""


def read_predicate(text: str) -> Predicate:
    """Read a predicate that the node has accepted."""
    return Predicate.parse(text, ATTRIBUTES_MAX)


@lru_cache(maxsize=1 << 10)
def _peer(text: str) -> bytes:
    return base58.b58decode(text)


def event_in(document: Mapping[str, Any], serializer: Serializer) -> Event:
    """Read an event."""
    predicate = read_predicate(document["event"])
    payload = base64.b64decode(document["payload"])
    created, signed = document["created"], None
    created_us = 0 if created is None else time_from_text(created)
    if "signature" in document:
        _, incarnation, number = event_id_from_text(document["id"])
        id = EventId(_peer(document["publisher"]), incarnation, number)
        signature = base64.b64decode(document["signature"])
        signed = Publication.of(id, predicate, payload, signature, created_us)
    return Event(
        document["id"],
        document["publisher"],
        predicate,
        payload,
        document["hops"],
        created=None if created is None else time_of(created_us),
        dropped_before=document["dropped_before"],
        signed=signed,
        serializer=serializer,
    )


def entry_in(document: Mapping[str, Any], serializer: Serializer) -> Entry:
    """Read an event of a topic."""
    return Entry(
        id=document["id"],
        publisher=document["publisher"],
        predicate=read_predicate(document["event"]),
        payload=base64.b64decode(document["payload"]),
        hops=document["hops"],
        author=document["author"],
        created=time_of(time_from_text(document["created"])),
        parents=tuple(document["parents"]),
        height=document["height"],
        block=base64.b64decode(document["block"]),
        dropped_before=document["dropped_before"],
        serializer=serializer,
    )


def time_in(text: str | None) -> datetime | None:
    """Read a time."""
    return None if text is None else time_of(time_from_text(text))


def gaps_in(document: Mapping[str, Any] | None) -> Gaps:
    """Read the gaps of a history."""
    if document is None:
        return Gaps()
    return Gaps(tuple(document["missing"]), tuple(document["let_go"]), document["silent_keepers"])


def subscription_in(document: Mapping[str, Any]) -> SubscriptionInfo:
    """Read the description of a subscription."""
    return SubscriptionInfo(
        document["subscription"],
        read_predicate(document["predicate"]),
        SubscriptionState(document["state"]),
        document["is_taken"],
        document["waiting"],
        document["is_kept"],
        document["dropped"],
    )


def event_info_in(document: Mapping[str, Any]) -> EventInfo:
    """Read the state of an event."""
    return EventInfo(
        document["id"],
        EventState(document["state"]),
        tuple(map(read_held, document["held"])),
        document["reason"],
        document["key"],
        tuple(document["waiting_in"]),
    )


def descriptor_in(document: Mapping[str, Any]) -> descriptors.Topic:
    """Read a version of a topic."""
    return descriptors.read_topic(base64.b64decode(document["block"]))


def stock_in(document: Mapping[str, Any]) -> Stock:
    """Read which events of a topic a node keeps."""
    return Stock(document["events"], document["bytes"], document["is_pinned"], document["is_whole"])


def known_topic_in(document: Mapping[str, Any]) -> KnownTopic:
    """Read a topic that a node knows."""
    return KnownTopic(
        descriptor_in(document),
        stock_in(document["kept"]),
        document["is_own"],
        document["subscriptions"],
        document["kept"]["for_others"],
    )


def known_group_in(document: Mapping[str, Any]) -> KnownGroup:
    """Read a group that a node knows."""
    return KnownGroup(
        read_predicate(document["group"]),
        document["owner"],
        document["is_own"],
        bool(document["is_private"]),
        bool(document["is_advertised"]),
        document["members"] or 0,
    )


def join_request_in(document: Mapping[str, Any]) -> JoinRequest:
    """Read a request to join a group."""
    return JoinRequest(
        document["peer_id"],
        tuple(map(read_predicate, document["predicates"])),
        document["region"],
        document["capacity"],
        base64.b64decode(document["signature"]),
    )


def found_group_in(document: Mapping[str, Any]) -> FoundGroup:
    """Read a group that a search has found."""
    return FoundGroup(document["owner"], read_predicate(document["group"]))
