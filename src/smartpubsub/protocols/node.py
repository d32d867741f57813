"""A node: composes Kademlia and the protocols, and stores what has to survive a crash.

One protocol carries subscriptions and events; other protocols, the residents, can run beside it.

The node numbers subscriptions and events, and stores its subscriptions and the peers around it. It
keeps trying to reach the peers that it has stored, so that the sides of a split network find each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message, decode, encode
from smartpubsub.kademlia.queries import Found, Joined
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols import dagcbor
from smartpubsub.protocols.capabilities import Gathers, HasNeighbours
from smartpubsub.protocols.departure import Goodbye
from smartpubsub.protocols.publication import EventId, Publication, Signing, UnsignedEvent
from smartpubsub.protocols.pubsub import (
    PubSub,
    Resident,
    Subscribed,
    Subscription,
    SubscriptionState,
)
from smartpubsub.protocols.runtime.deferred import TooManyCallsError
from smartpubsub.seam import (
    Answered,
    Asked,
    CancelTimer,
    Connect,
    Core,
    Deliver,
    Departed,
    Disconnected,
    Effect,
    Event,
    Indication,
    Load,
    Loaded,
    Peer,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
    Unknown,
)

_STORED = b"node/"
_SUBSCRIPTION = b"node/subscription/"
_LAST = b"node/last"
"""The last number of a subscription, which is not used again when the subscription has ended."""
_PEERS = b"node/peers"
_BLAME = b"node/blame"
_NUMBER_BYTES = 8
_NUMBERS_PER_INCARNATION_BITS = 20

PEERS_REMEMBERED_MAX = 40
PEERS_WANTED = 8
"""A node that remembers fewer peers than this remembers every peer that it meets."""
MEET_US = MINUTE
"""How often a node tries to reach remembered peers that are not in its routing table."""
MEET_AT_ONCE = 3
JOIN_AGAIN_US = 5 * SECOND
LOOK_FOR_AT_ONCE_MAX = 64
"""How many lookups of peers run at once; beyond that, the next message to a peer starts its own."""


class Alone(NamedTuple):
    """No peer that the node knows has answered; the node works alone and keeps trying."""


class NodeCore:
    """A node without its connections."""

    def __init__(
        self,
        kademlia: Kademlia,
        pubsub: PubSub,
        signing: Signing,
        residents: Sequence[Resident] = (),
    ) -> None:
        self.kademlia = kademlia
        self.pubsub = pubsub
        self._above: list[Core] = [pubsub, *residents]
        self._gathering = [core for core in self._above if isinstance(core, Gathers)]
        self._by_message: dict[type, Core] = {m: r for r in residents for m in r.messages}
        self._by_name: dict[str, Core] = {r.name: r for r in residents}
        self.subscriptions: dict[int, Subscription] = {}
        self._signing = signing
        self._incarnation = 0
        self._last_subscription = 0
        self._last_event = 0
        self._last_event_us = 0
        self._remembered: dict[bytes, Contact] = {}
        self._has_loaded = False
        self._bootstrap: Sequence[Contact] | None = None
        """The peers to join through, once the remembered peers are loaded."""
        self._looked_for: dict[int, Peer] = {}
        """The peers that lookups search for, by the number of the lookup."""
        self._awaited: dict[int, None] = {}
        """The numbers of subscriptions that the node reports once more when they are in force."""
        self._unbegun: list[Subscription] = []
        """Stored subscriptions that begin when the node has joined."""
        self._is_lonely = False
        """Whether the node has tried to join and no peer has answered."""
        self._effects: list[Effect] = []

    # --- calls of the host ---

    def neighbours(self) -> dict[Peer, None]:
        """The peers that the node depends on, or that depend on it."""
        kademlia = self.kademlia
        closest = kademlia.table.closest(kademlia.own.key, kademlia.settings.k)
        found = dict.fromkeys(contact.peer for contact in closest)
        for core in self._above:
            if isinstance(core, HasNeighbours):
                found |= dict.fromkeys(core.neighbours())
        return found

    def join(self, bootstrap: Sequence[Contact], now: int) -> list[Effect]:
        """Join the overlay through the given peers; deliver `Joined`.

        After a restart the node also joins through the peers that it remembers.
        """
        if self._has_loaded:
            known = bootstrap or list(self._remembered.values())
            self._remember_named(bootstrap)
            self._below(self.kademlia.join(known, now), now)
        else:
            self._bootstrap = bootstrap
        return self._taken()

    def meet(self, contact: Contact, now: int) -> list[Effect]:
        """Ping a peer, and if it answers, join through it too, without `Joined`."""
        self._below(self.kademlia.meet(contact, now), now)
        return self._taken()

    def settle(
        self,
        known: Sequence[Contact],
        now: int,
        prefix_of: Callable[[Peer], str] = lambda _peer: "",
    ) -> list[Effect]:
        """Fill the routing table with live peers, as if joined; deliver `Joined`."""
        for contact in filter(self.kademlia.admits, known):
            self.kademlia.table.heard_from(contact, now, prefix_of(contact.peer))
        self._below([Deliver(Joined(len(known)))], now)
        return self._taken()

    def leave(self, now: int, connected: Iterable[Peer] | None = None) -> list[Effect]:
        """Say goodbye to the peers in the table, or to the given connected ones.

        The host makes no more calls after this.
        """
        known = [contact.peer for contact in self.kademlia.table.contacts()]
        peers = known if connected is None else dict.fromkeys(connected)
        self._store_blame(now)
        return [*self._taken(), *(Send(peer, Goodbye(self._incarnation)) for peer in peers)]

    def subscribe(self, predicate: Predicate, now: int) -> tuple[int, list[Effect]]:
        """Subscribe and return the number; deliver `Subscribed` when it is in force."""
        subscription = Subscription(self.new_number(), predicate)
        begun = self.pubsub.subscribe(subscription, now)  # If this raises, store nothing.
        self.subscriptions[subscription.number] = subscription
        self._effects += [Store(_key(subscription.number), str(predicate).encode()), *begun]
        return subscription.number, self._taken()

    def report_in_force(self, number: int, now: int) -> list[Effect]:
        """Deliver `Subscribed` once more, as soon as a subscription is in force.

        A protocol delivers it when a subscription comes into force for the first time. Later the
        subscription may be pending for a while, until another parent has its filters.
        """
        self._awaited[number] = None
        self._effects += self._notices((), now)
        return self._taken()

    def _notices(self, effects: Iterable[Effect], now: int) -> list[Effect]:
        """Notices of awaited subscriptions in force, unless these effects have them already."""
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.item, Subscribed):
                self._awaited.pop(effect.item.subscription.number, None)
        there = [number for number in self._awaited if self.state_of(number, now).is_in_force]
        for number in there:
            del self._awaited[number]
        return [Deliver(Subscribed(self.subscriptions[number])) for number in there]

    def new_number(self) -> int:
        """Return a number that no subscription of this node has had, in any protocol."""
        if not self._has_loaded:  # The numbers of earlier incarnations are not known yet.
            first = self._incarnation << _NUMBERS_PER_INCARNATION_BITS
            self._last_subscription = max(self._last_subscription, first)
        self._last_subscription += 1
        number = self._last_subscription
        self._effects.append(Store(_LAST, number.to_bytes(_NUMBER_BYTES, "big")))
        return number

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        """End a subscription; deliver `Unsubscribed` when all nodes have forgotten it."""
        del self.subscriptions[number]
        self._awaited.pop(number, None)
        self._effects.append(Store(_key(number), None))
        self._effects += self.pubsub.unsubscribe(number, now)
        return self._taken()

    def state_of(self, number: int, now: int) -> SubscriptionState:
        """The state of a subscription."""
        return self.pubsub.state_of(number, now)

    def publish(
        self, predicate: Predicate, payload: bytes, now: int, *, wants_all: bool = False
    ) -> tuple[EventId, list[Effect]]:
        """Publish an event and return its id; deliver `Published` or `Refused`.

        With `wants_all`, also deliver `Confirmed` when all subscribers have it, if possible.
        """
        event = self.new_event(predicate, payload, now)
        self._effects += self.pubsub.publish(event, now, wants_all=wants_all)
        return event.id, self._taken()

    def new_event(
        self, predicate: Predicate, payload: bytes, now: int, *, is_signed: bool = True
    ) -> Publication:
        """Make an event of this node, numbered and dated, for any protocol.

        With `is_signed=False`, the protocol signs what it makes of the event. The times of a
        publisher's events never decrease, even if its clock goes backwards.
        """
        unsigned = self._unsigned(predicate, payload, now)
        return unsigned.signed(self._signing.sign(*unsigned) if is_signed else b"")

    def new_events(
        self, contents: Iterable[tuple[Predicate, bytes]], now: int
    ) -> list[Publication]:
        """Make events of this node that are signed together, for a protocol that allows it."""
        every = [self._unsigned(predicate, payload, now) for predicate, payload in contents]
        signatures = self._signing.sign_all(every)
        return [event.signed(each) for event, each in zip(every, signatures, strict=True)]

    def _unsigned(self, predicate: Predicate, payload: bytes, now: int) -> UnsignedEvent:
        self._last_event += 1
        self._last_event_us = max(self._last_event_us, now)
        return UnsignedEvent(self.last_event, predicate, payload, self._last_event_us)

    @property
    def last_event(self) -> EventId:
        """The id of the last event that was made."""
        return EventId(self.kademlia.own.peer, self._incarnation, self._last_event)

    def gather(self) -> None:
        """Hold the protocols' messages back until `release`."""
        for core in self._gathering:
            core.gather()

    def release(self, now: int) -> list[Effect]:
        """Send the messages that were held back, those to one peer together."""
        return [effect for core in self._gathering for effect in core.release(now)]

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an input and return the effects."""
        effects = self._handled(event, now)
        return [*effects, *self._notices(effects, now)] if self._awaited else effects

    def _handled(self, event: Event, now: int) -> list[Effect]:
        kind = type(event)
        if kind is Received or kind is Asked or kind is Answered:
            return self._on_message(event, now)  # type: ignore[arg-type]
        if kind is TimerFired:
            return self._on_timer(event, now)  # type: ignore[arg-type]
        match event:
            case Started(incarnation):
                self._incarnation = incarnation
                self._below(self.kademlia.handle(event, now), now)
                self._effects += [Load(_STORED), SetTimer(("node", "meet"), now + MEET_US)]
                self._hand_to_all(event, now)
            case Disconnected() | Departed():
                self._below(self.kademlia.handle(event, now), now)
                self._hand_to_all(event, now)
            case Unknown(peer):
                self._look_for(peer, now)
            case Loaded(prefix, values) if prefix == _STORED:
                self._on_loaded(values, now)
            case Loaded(prefix):
                name = prefix.partition(b"/")[0].decode()
                if name == "kad":
                    self._below(self.kademlia.handle(event, now), now)
                else:
                    self._effects += self._by_name.get(name, self.pubsub).handle(event, now)
            case _:
                self._hand_to_all(event, now)
        return self._taken()

    def _on_message(self, event: Received | Asked | Answered, now: int) -> list[Effect]:
        kind = type(event.message)
        self.kademlia.heard_us[event.peer] = now
        if kind is Message:
            return self._handled_below(event, now)
        if kind is Goodbye:
            return self._handled(Departed(event.peer), now)
        return self._by_message.get(kind, self.pubsub).handle(event, now)

    def _hand_to_all(self, event: Event, now: int) -> None:
        for core in self._above:
            self._effects += core.handle(event, now)

    def _handled_below(self, event: Event, now: int) -> list[Effect]:
        effects = self.kademlia.handle(event, now)
        if len(self._remembered) < PEERS_WANTED and len(self.kademlia.table):
            self._remember(self.kademlia.closest_local(self.kademlia.own.peer, PEERS_WANTED))
        if self._is_lonely and len(self.kademlia.table):
            # A peer has come by itself, so joining need not wait for the remembered peers. Meet
            # these too: they may know a larger network than this peer.
            self._is_lonely = False
            self._effects.append(CancelTimer(("node", "join")))
            effects += self.kademlia.join([], now)
            self._meet(now)
        if self._effects or any(type(effect) is Deliver for effect in effects):
            self._below(effects, now)
            return self._taken()
        return effects  # Most effects of Kademlia concern no other core.

    def _on_timer(self, event: TimerFired, now: int) -> list[Effect]:
        match event.timer:
            case ("kad", _):
                return self._handled_below(event, now)
            case ("node", "meet"):
                self._effects.append(SetTimer(("node", "meet"), now + MEET_US))
                self._meet(now)
                self._store_blame(now)
            case ("node", "join"):
                self._below(self.kademlia.join(self._strangers(), now), now)
            case (str(name), *_):
                return self._by_name.get(name, self.pubsub).handle(event, now)
        return self._taken()

    def _below(self, effects: list[Effect], now: int) -> None:
        """Pass Kademlia's effects on, and hand its results to the protocols."""
        for effect in effects:
            if type(effect) is not Deliver:
                self._effects.append(effect)
                continue
            if isinstance(effect.item, Joined):
                self._on_joined(effect.item, now)
            if isinstance(effect.item, Found) and effect.item.number in self._looked_for:
                self._on_found(effect.item)
                continue
            self._hand_to_all(Indication(effect.item), now)
            if isinstance(effect.item, Joined):
                unbegun, self._unbegun = self._unbegun, []
                for subscription in unbegun:
                    self._restore(subscription, now)

    # --- peers ---

    def _on_joined(self, joined: Joined, now: int) -> None:
        """Remember the peers around; if no peer has answered, work alone and try again.

        The node is then a network of one, and a peer that comes back heals it like a split.
        """
        self._is_lonely = not joined.known and bool(self._remembered)
        if self._is_lonely:
            self._effects += [SetTimer(("node", "join"), now + JOIN_AGAIN_US), Deliver(Alone())]
            return
        known = self.kademlia.closest_local(self.kademlia.own.peer, PEERS_REMEMBERED_MAX // 2)
        self._remember(known)
        self._effects.append(Deliver(joined))

    def _meet(self, now: int) -> None:
        """Try to reach remembered peers that are not in the table, a few at a time."""
        for contact in self._strangers()[:MEET_AT_ONCE]:
            self._remembered[contact.peer] = self._remembered.pop(contact.peer)
            self._below(self.kademlia.meet(contact, now), now)
        self._remember_anew()

    def _remember_anew(self) -> None:
        """Remember the closest peers of the table, and drop others for them.

        Peers that are not in the table are dropped last, because they may be the other side of a
        split; of these, the ones that the node tried to reach longest ago stay.
        """
        around = self.kademlia.closest_local(self.kademlia.own.peer, PEERS_REMEMBERED_MAX // 2)
        if all(self._remembered.get(contact.peer) == contact for contact in around):
            return
        near = {contact.peer: contact for contact in around}
        others = [contact for peer, contact in self._remembered.items() if peer not in near]
        strangers = {contact.peer: None for contact in self._strangers()}
        others.sort(key=lambda contact: contact.peer not in strangers)
        kept = others[: PEERS_REMEMBERED_MAX - len(near)]
        self._remembered = {contact.peer: contact for contact in (*kept, *around)}
        self._effects.append(Store(_PEERS, _encoded(self._remembered.values())))

    def _look_for(self, peer: Peer, now: int) -> None:
        """Look up the addresses of a peer that is known only by its id."""
        if len(self._looked_for) < LOOK_FOR_AT_ONCE_MAX:
            number, effects = self.kademlia.find_closest(peer, now)
            self._looked_for[number] = peer
            self._below(effects, now)

    def _on_found(self, found: Found) -> None:
        wanted = self._looked_for.pop(found.number)
        for contact in found.closest:
            if contact.peer == wanted:
                self._effects.append(Connect(contact.peer, contact.addresses))

    def _strangers(self) -> list[Contact]:
        table = self.kademlia.table
        return [contact for contact in self._remembered.values() if not table.is_trusted(contact)]

    def _remember_named(self, bootstrap: Sequence[Contact]) -> None:
        """Remember bootstrap peers with the addresses that the caller gives.

        These replace stored addresses: a peer may listen on another port after a restart.
        """
        for contact in bootstrap:
            self._remembered.pop(contact.peer, None)
        self._remember(bootstrap)

    def _remember(self, contacts: Sequence[Contact]) -> None:
        before = len(self._remembered)
        for contact in contacts:
            if len(self._remembered) < PEERS_REMEMBERED_MAX:
                self._remembered.setdefault(contact.peer, contact)
        if len(self._remembered) > before:
            self._effects.append(Store(_PEERS, _encoded(self._remembered.values())))

    # --- storage ---

    def _on_loaded(self, values: Sequence[tuple[bytes, bytes]], now: int) -> None:
        self._has_loaded = True
        peers: Sequence[Contact] = ()
        for key, value in values:
            if key == _PEERS:
                peers = decode(value, self.kademlia.settings).closer
                self._remembered |= {contact.peer: contact for contact in peers}
            elif key == _BLAME:
                self._restore_blame(value)
            elif key == _LAST:
                stored = int.from_bytes(value, "big")
                self._last_subscription = max(self._last_subscription, stored)
            elif key.startswith(_SUBSCRIPTION):
                number = int.from_bytes(key[len(_SUBSCRIPTION) :], "big")
                predicate = Predicate.parse(value.decode(), attributes_max=len(value))
                self._restore(Subscription(number, predicate), now)
        if peers or self._bootstrap is not None:
            bootstrap = self._bootstrap or ()
            self._remember_named(bootstrap)
            named = {contact.peer: None for contact in bootstrap}
            others = [contact for contact in peers if contact.peer not in named]
            self._below(self.kademlia.join([*bootstrap, *others], now), now)

    def _store_blame(self, now: int) -> None:
        """Store the blame of peers if it has changed; a crash may undo the last changes."""
        blame = self.kademlia.blame
        if blame.has_changed:
            stored = [list(entry) for entry in blame.stored(now)]
            value = dagcbor.encode(stored) if stored else None
            self._effects.append(Store(_BLAME, value, may_be_late=True))

    def _restore_blame(self, value: bytes) -> None:
        try:
            stored = dagcbor.decode(value)
            self.kademlia.blame.restore((b, int(p), int(at), dict(why)) for b, p, at, why in stored)
        except (dagcbor.EncodingError, ValueError, TypeError):
            self._effects.append(Store(_BLAME, None, may_be_late=True))

    def _restore(self, subscription: Subscription, now: int) -> None:
        """Begin a stored subscription again; once joined, if too many calls wait for that."""
        self.subscriptions[subscription.number] = subscription
        try:
            self._effects += self.pubsub.subscribe(subscription, now)
        except TooManyCallsError:
            self._unbegun.append(subscription)

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _key(number: int) -> bytes:
    return _SUBSCRIPTION + number.to_bytes(_NUMBER_BYTES, "big")


def _encoded(contacts: Iterable[Contact]) -> bytes:
    """Encode contacts as an answer of Kademlia."""
    return encode(Message(Kind.FIND_NODE, closer=tuple(contacts)))
