"""Descriptors of topics: name, author, and which peers may publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import (
    Cid,
    CidError,
    cid_from_text,
    cid_of,
    encode,
    link,
    time_text,
)
from smartpubsub.protocols.publication import SIGNATURE_BYTES, Signing
from smartpubsub.protocols.pulsarcast.fields import (
    PROTOCOL_VERSION,
    Reason,
    RefusalError,
    check_version,
    cid_in,
    fields_of,
    malformed,
    natural,
    peer_in,
    peers_in,
    time_in,
    typed,
    value_in,
)
from smartpubsub.seam import Peer

TOPIC_BYTES_MAX = 60_000
"""The longest descriptor; the nodes of the overlay store a little more under one name."""
NAME_CHARACTERS_MAX = 256
SUBTOPICS_MAX = 500
META = "meta"
ANYONE, NOBODY, SELF = "anyone", "nobody", "self"
"""Words that users write instead of peer ids; the last is the topic's author."""

_FIELDS = frozenset({"name", "author", "parent", "#", "metadata", "signature"})
_METADATA = frozenset(
    {
        "created",
        "protocolVersion",
        "version",
        "allowedPublishers",
        "requestToPublish",
        "eventLinking",
    }
)
_RULE = frozenset({"enabled", "peers"})


class Linking(Enum):
    """Who chooses the links of an event."""

    LAST_SEEN = "LAST_SEEN"
    """The publishing node: the newest events that it has seen."""
    CUSTOM = "CUSTOM"
    """The application."""

    @property
    def word(self) -> str:
        """The name that users write.

        >>> Linking.LAST_SEEN.word
        'last-seen'
        """
        return self.value.lower().replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which peers may publish in a topic, and which may ask publishers to publish."""

    publishers: tuple[Peer, ...] | None = None
    """None for any peer."""
    takes_requests: bool = False
    requesters: tuple[Peer, ...] = ()
    """Empty for any peer."""
    linking: Linking = Linking.LAST_SEEN

    def may_publish(self, peer: Peer) -> bool:
        """Whether a peer may publish by itself."""
        return self.publishers is None or peer in self.publishers

    def may_request(self, peer: Peer) -> bool:
        """Whether a peer may ask a publisher to publish an event."""
        return self.takes_requests and (not self.requesters or peer in self.requesters)

    def allow(self, author: Peer, publisher: Peer) -> bool:
        """Whether this publisher may publish an event of this author."""
        return self.may_publish(publisher) and (author == publisher or self.may_request(author))

    @property
    def is_chained(self) -> bool:
        """Whether all events form one chain, which is delivered in its order."""
        alone = self.publishers is not None and len(self.publishers) == 1
        return alone and self.linking is Linking.LAST_SEEN


def topic_named_by(predicate: Predicate) -> Cid:
    """Return the topic that the predicate of a subscription or an event names."""
    names = list(predicate.attributes)
    if len(names) != 1:
        raise CidError(f"{str(predicate)!r} names no topic; a topic is one content id")
    return cid_from_text(names[0])


def rules_ordered_by(author: Peer) -> Rules:
    """Return the rules of a topic with one order: its author publishes for every peer."""
    return Rules(publishers=(author,), takes_requests=True)


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One version of a topic, with its block."""

    name: str
    author: Peer
    parent: Cid | None
    """The previous version."""
    subtopics: Mapping[str, Cid]
    """By name; every topic except a meta topic has `meta`."""
    created_us: int
    version: int
    """Increases from each version to the next."""
    rules: Rules
    signature: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    """The bytes that the author has signed: all fields except the signature."""
    block: bytes = field(repr=False)
    cid: Cid

    @property
    def meta(self) -> Cid | None:
        """The meta topic, in which versions are announced; None if this is one."""
        return self.subtopics.get(META)

    @property
    def stable_id(self) -> Cid:
        """The id that all versions of a topic share: that of the meta topic."""
        return self.subtopics.get(META, self.cid)


def new_topic(
    name: str,
    author: Peer,
    rules: Rules,
    signing: Signing,
    now: int,
    *,
    parent: Topic | None = None,
    subtopics: Mapping[str, Cid] | None = None,
) -> Topic:
    """Make a topic, or a version of one, of the peer that signs."""
    content: dict[str, Any] = {
        "name": name,
        "author": author,
        "parent": None if parent is None else link(parent.cid),
        "#": {name: link(cid) for name, cid in (subtopics or {}).items()},
        "metadata": {
            "created": time_text(now),
            "protocolVersion": PROTOCOL_VERSION,
            "version": 1 if parent is None else parent.version + 1,
            "allowedPublishers": {
                "enabled": rules.publishers is not None,
                "peers": list(rules.publishers or ()),
            },
            "requestToPublish": {
                "enabled": rules.takes_requests,
                "peers": list(rules.requesters),
            },
            "eventLinking": rules.linking.value,
        },
    }
    signature = signing.sign_statement(lambda: encode(content))
    return read_topic(encode({**content, "signature": signature}))


def new_meta_topic(name: str, author: Peer, signing: Signing, now: int) -> Topic:
    """Make the topic in which a topic's author announces versions."""
    return new_topic(name, author, Rules(publishers=(author,)), signing, now)


@lru_cache(maxsize=1 << 10)
def read_topic(block: bytes) -> Topic:
    """Return the topic that a block describes, without a check of its signature."""
    if len(block) > TOPIC_BYTES_MAX:
        raise RefusalError(Reason.OVERSIZED, f"a topic of {len(block)} bytes")
    fields = fields_of(value_in(block), "a topic", _FIELDS)
    metadata = fields_of(fields["metadata"], "a topic's metadata", _METADATA)
    check_version(metadata)
    name, subtopics = typed(fields, "name", str), typed(fields, "#", dict)
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
        malformed(f"a name has 1 to {NAME_CHARACTERS_MAX} characters")
    if len(subtopics) > SUBTOPICS_MAX:
        malformed(f"more than {SUBTOPICS_MAX} sub-topics")
    signature = typed(fields, "signature", bytes)
    if len(signature) != SIGNATURE_BYTES:
        malformed(f"a signature has {SIGNATURE_BYTES} bytes")
    signed = {key: value for key, value in fields.items() if key != "signature"}
    return Topic(
        name=name,
        author=peer_in(fields["author"]),
        parent=None if fields["parent"] is None else cid_in(fields["parent"]),
        subtopics={name: cid_in(linked) for name, linked in subtopics.items()},
        created_us=time_in(metadata["created"]),
        version=natural(metadata, "version"),
        rules=_rules(metadata),
        signature=signature,
        signed=encode(signed),
        block=block,
        cid=cid_of(block),
    )


def _rules(metadata: Mapping[str, Any]) -> Rules:
    allowed = fields_of(metadata["allowedPublishers"], "allowedPublishers", _RULE)
    requests = fields_of(metadata["requestToPublish"], "requestToPublish", _RULE)
    publishers = peers_in(allowed["peers"])
    try:
        linking = Linking(metadata["eventLinking"])
    except ValueError:
        malformed("eventLinking is LAST_SEEN or CUSTOM")
    return Rules(
        publishers=publishers if typed(allowed, "enabled", bool) else None,
        takes_requests=typed(requests, "enabled", bool),
        requesters=peers_in(requests["peers"]),
        linking=linking,
    )
