"""What a node knows of one topic: its versions and events, and the node's place in its tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact, Key, key_of
from smartpubsub.protocols.blocks import Cid, cid_text
from smartpubsub.protocols.pubsub import Subscription
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.parts import Head
from smartpubsub.protocols.pulsarcast.topics import Topic
from smartpubsub.seam import Peer


@dataclass(slots=True, eq=False)
class Child:
    """Somebody below this node in a tree."""

    contact: Contact
    distance: Key
    below: int
    heard_us: int
    is_moving: bool = False
    """Whether it was told to go to somebody else, and has not gone yet."""


@dataclass(slots=True, eq=False)
class Keeping:
    """An event that has to be stored before it counts as published."""

    event: TopicEvent
    called_us: int
    kept_by: dict[Peer, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Fetching:
    """Somebody was asked for events that are missing."""

    number: int
    peer: Peer
    asked_us: int


@dataclass(slots=True, eq=False)
class Backfilling:
    """Somebody was asked for what was published before this node's time."""

    sources: list[Peer]
    wanted: tuple[Cid, ...] = ()
    number: int = 0
    has_answer: bool = False
    got: dict[Cid, None] = field(default_factory=dict)
    """The highest below which nothing is missing."""


@dataclass(slots=True, eq=False)
class Room:
    """A topic, all its versions, its meta topic, and the tree that they share."""

    id: Cid
    topic: Topic
    """The newest version."""
    meta: Topic
    own_distance: Key
    versions: dict[Cid, Topic] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
    is_new: bool = True
    """Whether it is not settled yet from when on events matter to this node."""

    # Why the node is a member.
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    topic_numbers: tuple[int, ...] = ()
    meta_numbers: tuple[int, ...] = ()
    in_force: dict[int, None] = field(default_factory=dict)
    keeper_until_us: int = 0
    wanted_until_us: int = 0
    """How long the node stays for other reasons, such as that it has published."""
    is_pinned: bool = False

    # The tree.
    is_root: bool = False
    parent: Contact | None = None
    joining: Contact | None = None
    """Who was asked to be the parent."""
    tries: int = 0
    is_seeking: bool = False
    redirects: int = 0
    silent_beats: int = 0
    beat_sent_us: int = 0
    """When the parent was last asked for an answer that has not come; 0 if there is none such."""
    join_sent_us: int = 0
    """When somebody was last asked to be the parent."""
    children: dict[Peer, Child] = field(default_factory=dict)
    waiting: dict[Peer, tuple[Contact, int]] = field(default_factory=dict)
    avoided: dict[Peer, int] = field(default_factory=dict)
    proved_us: int = 0

    # Events.
    unspread: dict[Cid, None] = field(default_factory=dict)
    """Events that came otherwise than through the tree, by which they may still come."""
    unknown: dict[Cid, tuple[Peer, int]] = field(default_factory=dict)
    """Events that are missing: who knows of each, and since when it is missed."""
    fetching: Fetching | None = None
    fetch_tries: int = 0
    checks: bool = False
    """Whether a look at what is missing is due."""
    drafts: list[Callable[[], None]] = field(default_factory=list)
    """Publishes own events that wait for the node to have its place."""

    # Keepers.
    keepers: tuple[Contact, ...] = ()
    keepers_us: int = 0
    is_finding_keepers: bool = False
    keeping: dict[Cid, Keeping] = field(default_factory=dict)
    keep_is_set: bool = False
    backfilling: Backfilling | None = None
    backfill_tries: int = 0
    backfill_again_us: int = 0
    has_all: bool = False
    """Whether what was published before this node's time is here too, but for what was let go."""

    @property
    def is_attached(self) -> bool:
        """Whether the node has its place in the tree."""
        return self.is_root or self.parent is not None

    @property
    def target(self) -> Key:
        """What the tree grows towards."""
        return key_of(self.topic.author)

    @property
    def is_own(self) -> bool:
        """Whether this node is the topic's author, who stays: it alone makes new versions."""
        return not self.own_distance

    def is_wanted(self, now: int) -> bool:
        """Whether the node has reasons of its own to be a member."""
        return bool(
            self.is_own
            or self.subscriptions
            or self.is_pinned
            or self.keeping
            or max(self.keeper_until_us, self.wanted_until_us) > now
        )

    def neighbours(self) -> Iterator[Peer]:
        """The parent and the children."""
        if self.parent is not None:
            yield self.parent.peer
        yield from self.children

    def below(self) -> int:
        """How many are below this node, as far as it was told."""
        return sum(1 + child.below for child in self.children.values())

    def heads(self, count_max: int) -> tuple[Head, ...]:
        """The newest events, at most so many."""
        heads = [Head(cid, height) for cid, height in self.log.heads.items()]
        return tuple(heads[-count_max:])

    def add_version(self, topic: Topic) -> None:
        """Know a version, which may be the newest."""
        self.versions[topic.cid] = topic
        if topic.version >= self.topic.version:
            self.topic = topic

    def set_numbers(self) -> None:
        """Know again which subscriptions are for the topic and which for its meta topic."""
        name = cid_text(self.id)
        of_meta = [n for n, s in self.subscriptions.items() if name in s.predicate.attributes]
        self.meta_numbers = tuple(of_meta)
        self.topic_numbers = tuple(n for n in self.subscriptions if n not in of_meta)


def new_room(topic: Topic, meta: Topic, own: Key) -> Room:
    """A room for a topic that was found."""
    room = Room(meta.cid, topic, meta, own ^ key_of(topic.author))
    room.versions[meta.cid] = meta
    room.add_version(topic)
    return room
