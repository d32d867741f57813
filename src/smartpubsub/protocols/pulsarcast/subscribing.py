"""Subscriptions to topics. What comes for one that is kept waits, in storage, until it is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import partial

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, CidError, cid_text
from smartpubsub.protocols.pubsub import Subscription, SubscriptionState, Unsubscribed
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.office import Office
from smartpubsub.protocols.pulsarcast.room import Room
from smartpubsub.protocols.pulsarcast.topics import topic_named_by


class Subscribing:
    """The node's own subscriptions."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.wanted: dict[int, Subscription] = {}
        self._waiting: dict[int, dict[Cid, None]] = {}
        """Of each that is kept, what was told and nobody has taken yet, in the order of telling."""
        self.dropped: Counter[int] = Counter()
        """How much that was not taken in time has been let go with the oldest of its topic."""

    # --- coming and going ---

    def begin(self, number: int) -> None:
        """Find the topic, and the node's place in its tree."""
        subscription = self.wanted.get(number)
        if subscription is None:
            return
        try:
            topic = topic_named_by(subscription.predicate)
        except CidError:
            self._office.refused["no topic"] += 1
        else:
            self._office.finding.room(topic, partial(self._on_room, subscription))

    def _on_room(self, subscription: Subscription, room: Room | None) -> None:
        office, number = self._office, subscription.number
        if number not in self.wanted:
            return
        if room is None:
            # Its author may be back later.
            office.set_timer(("subscribe", number), office.settings.request_us_max)
            return
        room.subscriptions[number] = subscription
        room.set_numbers()
        office.joining.attach(room)
        office.joining.confirm(room)

    def end(self, number: int) -> None:
        """Have nothing come for a subscription any more; `Unsubscribed` comes."""
        office = self._office
        subscription = self.wanted.pop(number)
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            office.storing.forget_kept(number, waiting)
        for room in list(office.rooms.values()):
            if room.subscriptions.pop(number, None) is not None:
                room.in_force.pop(number, None)
                room.set_numbers()
                office.joining.leave_if_unwanted(room)
        office.deliver(Unsubscribed(subscription))

    def state_of(self, number: int) -> SubscriptionState:
        """How far a subscription has come."""
        for room in self._office.rooms.values():
            if number in room.subscriptions and room.is_attached:
                return SubscriptionState.IN_FORCE
        return SubscriptionState.PENDING

    # --- what is kept ---

    def keep(self, subscription: Subscription) -> None:
        """Have a subscription, and what comes for it, outlive a restart."""
        self._waiting[subscription.number] = {}
        topic = topic_named_by(subscription.predicate)
        self._office.storing.store_kept(subscription.number, topic)

    def resume(self) -> list[int]:
        """Go on with those of before a restart; their numbers."""
        storing = self._office.storing
        for number, topic in storing.kept:
            predicate = Predicate.of({cid_text(topic): True})
            self.wanted[number] = Subscription(number, predicate)
            self._waiting[number] = {}
        for number, cid in storing.waiting:
            event = self._event(number, cid)
            if event is not None:
                self._waiting[number][cid] = None
        for number, waiting in self._waiting.items():
            places = sorted(event.place for cid in waiting if (event := self._event(number, cid)))
            self._waiting[number] = dict.fromkeys(cid for _, cid in places)
        storing.kept, storing.waiting = [], []
        return [*self._waiting]

    def _event(self, number: int, cid: Cid) -> TopicEvent | None:
        subscription = self.wanted.get(number)
        if subscription is None or number not in self._waiting:
            return None
        room = self._office.room_of.get(topic_named_by(subscription.predicate))
        return None if room is None else room.log.events.get(cid)

    @property
    def kept(self) -> dict[int, int]:
        """The subscriptions that are kept, and how much waits for each."""
        return {number: len(waiting) for number, waiting in self._waiting.items()}

    def tell(self, event: TopicEvent, numbers: Iterable[int]) -> None:
        """An event is told to subscriptions; those that are kept have it until it is taken."""
        for number in numbers:
            waiting = self._waiting.get(number)
            if waiting is not None:
                waiting[event.cid] = None
                self._office.storing.store_waiting(number, event.cid)

    def next(self, number: int, given: Container[Cid]) -> TopicEvent | None:
        """The first that waits but for what was given to somebody already, if there is any."""
        for cid in self._waiting.get(number, ()):
            if cid not in given:
                return self._event(number, cid)
        return None

    def waiting_for(self, number: int) -> Iterable[Cid]:
        """What waits for a subscription that is kept."""
        return self._waiting.get(number, {}).keys()

    def take(self, number: int, cid: Cid) -> int:
        """An event, and all that was told before it, need not wait any more; how many did."""
        waiting = self._waiting.get(number, {})
        if cid not in waiting:
            return 0
        taken = []
        for one in waiting:
            taken.append(one)
            if one == cid:
                break
        for one in taken:
            del waiting[one]
        self._office.storing.forget_waiting(number, taken)
        return len(taken)

    def let_go(self, room: Room, gone: Sequence[TopicEvent]) -> None:
        """The oldest events of a topic are not kept any more, whoever waits for them."""
        for number in room.subscriptions:
            waiting = self._waiting.get(number)
            if waiting is None:
                continue
            lost = [event.cid for event in gone if event.cid in waiting]
            for cid in lost:
                del waiting[cid]
            self.dropped[number] += len(lost)
            self._office.storing.forget_waiting(number, lost)
