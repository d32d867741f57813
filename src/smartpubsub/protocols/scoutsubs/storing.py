"""What a node keeps through crashes, so that it comes back with everything it has acknowledged.

Others have copies of all of it, but all may be killed at once, or there may be no others. Stored
are the events in a node's care and those that it keeps as a backup, and what its children want. An
event that is done and stays for those who subscribe later is not stored again, but marked.
Where somebody else knows better after a restart, what was stored does not count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeVar

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.scoutsubs.branches import STAGE_MAX, UNTOLD
from smartpubsub.protocols.scoutsubs.messages import (
    Bundle,
    BundleLimits,
    ChildCopy,
    CopyTree,
    Part,
    Record,
    decode,
    encode,
)
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import MS, EventKey
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.seam import Load, Peer, Store

STORED = b"scout/"
_RECORD = STORED + b"record/"
_DONE = STORED + b"done/"
_CHILD = STORED + b"child/"
_STAGE = STORED + b"stage/"
_CHILD_BYTES_MAX = 4 << 20
"""A child that wants more than this is not stored; its copies have to do."""
# What was taken once is read again, whatever the limits are by now.
_LIMITS = BundleLimits(bundle_bytes_max=8 << 20, events=RpcLimits(attributes_max=1_000))
_NUMBERS = struct.Struct(">II")
_SINCE = struct.Struct(">q")

AnyPart = TypeVar("AnyPart", bound=Part)


class Storing:
    """What is in storage, and what has been read from it and not been used yet."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._sizes: dict[bytes, int] = {}
        self.bytes_held = 0
        self._records: list[tuple[Peer, Record]] = []
        """Read after a start: events, and in whose care they were."""
        self._children: dict[str, dict[Peer, ChildCopy]] = {}
        """Read after a start: children, by attribute."""
        self._stages: dict[str, int] = {}
        """Of attributes that are or were split: whether they are."""
        self._read_us = 0
        self._has_begun = False

    @property
    def is_full(self) -> bool:
        """Whether nothing more that others bring may be stored."""
        return self.bytes_held >= self._office.settings.stored_bytes_max

    # --- while it runs ---

    def keep_record(self, record: Record, owner: Peer) -> None:
        """Store an event, in whose care it is, and when it was published."""
        began_us = self._office.now - record.age_ms * MS
        content = encode(Bundle((record._replace(age_ms=0),)))
        name = _named((record.event.id, record.attribute))
        self._put(_RECORD + name, _counted(owner) + _SINCE.pack(began_us) + content)
        self._drop(_DONE + name)

    def keep_done(self, event: Publication, attribute: str) -> None:
        """Store an event that others have brought to an end, and that stays here."""
        age_ms = max(0, self._office.now - event.created_us) // MS
        self.keep_record(Record(event, attribute, 0, False, age_ms), self._office.own.peer)
        self.mark_done((event.id, attribute))

    def drop_record(self, key: EventKey) -> None:
        """Everybody has an event, and nobody will ask for it."""
        name = _named(key)
        self._drop(_RECORD + name)
        self._drop(_DONE + name)

    def mark_done(self, key: EventKey) -> None:
        """Everybody has an event, which stays for those who will ask for it."""
        name = _named(key)
        if _RECORD + name in self._sizes:
            self._put(_DONE + name, b"")

    def drop_done(self, key: EventKey) -> None:
        """An event does not stay any longer, unless somebody has not got it yet."""
        if _DONE + _named(key) in self._sizes:
            self.drop_record(key)

    def keep_child(self, tree: Tree, peer: Peer) -> None:
        """Store what a child wants, or that it wants nothing any more."""
        own = self._office.own
        if peer == own.peer:
            return
        key = _CHILD + _counted(peer) + tree.name
        copies = tree.copies(own, self._office.incarnation, [peer])
        part = CopyTree(tree.attribute, False, 0, True, tuple(copies), ())
        content = encode(Bundle((part,))) if copies else b""
        if content and (len(content) > _CHILD_BYTES_MAX or self.is_full):
            self._office.refusals["stored filters"] += 1
            content = b""
        if content:
            self._put(key, content)
        else:
            self._drop(key)

    def keep_stage(self, tree: Tree) -> None:
        """Store whether an attribute is split, for events come by its branches after a restart."""
        self._stages[tree.attribute] = tree.stage
        self._put(_STAGE + tree.name, _SINCE.pack(tree.stage))

    def stage_of(self, attribute: str) -> int:
        """The stage that an attribute was in before a restart."""
        return self._stages.get(attribute, UNTOLD)

    def drop_stage(self, attribute: str) -> None:
        """The node has to do with an attribute no longer."""
        self._stages.pop(attribute, None)
        self._drop(_STAGE + attribute.encode())

    def _put(self, key: bytes, value: bytes) -> None:
        self.bytes_held += len(key) + len(value) - self._sizes.get(key, 0)
        self._sizes[key] = len(key) + len(value)
        self._office.do(Store(key, value))

    def _drop(self, key: bytes) -> None:
        size = self._sizes.pop(key, None)
        if size is not None:
            self.bytes_held -= size
            self._office.do(Store(key, None))

    # --- after a start ---

    def start(self) -> None:
        """Have what was stored before read."""
        self._office.do(Load(STORED))

    def on_loaded(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Take note of what was stored."""
        self._read_us = self._office.now
        done: dict[bytes, None] = {}
        past: list[tuple[Publication, str]] = []
        for key, value in values:
            self._sizes[key] = len(key) + len(value)
            self.bytes_held += self._sizes[key]
            if key.startswith(_DONE):
                done[key.removeprefix(_DONE)] = None
                continue
            try:
                self._read(key, value)
            except (WireError, IndexError, ValueError, struct.error):
                self._office.refusals["stored"] += 1
                self._drop(key)
        records, self._records = self._records, []
        for owner, record in records:
            name = _named((record.event.id, record.attribute))
            if name in done:
                del done[name]
                past.append((record.event, record.attribute))
            else:
                self._records.append((owner, record))
        for name in done:  # Of what was not stored whole.
            self._drop(_DONE + name)
        self._office.history.restore(past)

    def _read(self, key: bytes, value: bytes) -> None:
        if key.startswith(_RECORD):
            owner, rest = value[1 : 1 + value[0]], value[1 + value[0] :]
            (began_us,) = _SINCE.unpack(rest[: _SINCE.size])
            record = _part(Record, rest[_SINCE.size :])
            age_ms = max(0, self._office.now - began_us) // MS
            self._records.append((owner, record._replace(age_ms=age_ms)))
        elif key.startswith(_STAGE):
            (stage,) = _SINCE.unpack(value)
            if not UNTOLD < stage <= STAGE_MAX:
                raise WireError(f"a stage of {stage} is stored")
            self._stages[key.removeprefix(_STAGE).decode()] = stage
        else:
            part = _part(CopyTree, value)
            children = self._children.setdefault(part.attribute, {})
            children.update({copy.contact.peer: copy for copy in part.children})

    def children_of(self, attribute: str) -> tuple[ChildCopy, ...]:
        """The children that were stored of a tree, for once: from then on they are in the tree."""
        return tuple(self._children.pop(attribute, {}).values())

    def begin(self) -> None:
        """The node takes part in the network."""
        self._has_begun = True
        self.resume()

    def resume(self) -> None:
        """Go on with what was stored, when the node takes part and has asked others.

        What the node's children wanted where it was no rendezvous, others may have told it.
        """
        office = self._office
        if not self._has_begun or not office.is_ready:
            return
        for attribute in list(self._children):
            tree = office.tree(attribute)
            if tree is not None and tree.role is Role.CHILD:
                self._restore(tree)
        records, self._records = self._records, []
        for owner, record in records:
            office.keeping.restore(owner, record)

    def _restore(self, tree: Tree) -> None:
        office = self._office
        for copy in self.children_of(tree.attribute):
            peer = copy.contact.peer
            if not office.copying.was_told:
                tree.restore(copy, office.now, office.settings.child_count_max)
            if peer not in tree.children:
                self._drop(_CHILD + _counted(peer) + tree.name)
        office.copying.refresh(tree)
        office.announcing.update(tree)
        office.announcing.announce(tree)

    def tick(self) -> None:
        """Once in a while: forget what was read and is too old to be of use."""
        if self._office.now - self._read_us <= 2 * self._office.settings.renew_us:
            return
        for attribute in list(self._children):
            for copy in self.children_of(attribute):
                self._drop(_CHILD + _counted(copy.contact.peer) + attribute.encode())
        for attribute in [name for name in self._stages if name not in self._office.trees]:
            self.drop_stage(attribute)


def _counted(peer: Peer) -> bytes:
    return bytes([len(peer)]) + peer


def _named(key: EventKey) -> bytes:
    (publisher, incarnation, number), attribute = key
    return _counted(publisher) + _NUMBERS.pack(incarnation, number) + attribute.encode()


def _part(kind: type[AnyPart], content: bytes) -> AnyPart:
    (part,) = decode(content, _LIMITS).parts
    if not isinstance(part, kind):
        raise WireError(f"what is stored is no {kind.__name__}")
    return part
