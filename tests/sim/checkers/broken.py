"""Protocols that each break one promise, and otherwise do what Floodsub does."""

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.matching import FilterSet
from smartpubsub.predicates import Interval, Predicate
from smartpubsub.protocols.baselines.floodsub import Floodsub, FloodsubSettings
from smartpubsub.protocols.baselines.messages import Copy, Rpc
from smartpubsub.protocols.publication import Publication, Signing
from smartpubsub.protocols.pubsub import (
    Delivery,
    Inspection,
    Published,
    Refused,
    Subscription,
    Summary,
    Unsubscribed,
)
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import (
    Deliver,
    Effect,
    Event,
    Peer,
    Received,
    Send,
    SetTimer,
    TimerFired,
)


def is_delivery(effect: Effect) -> bool:
    return isinstance(effect, Deliver) and isinstance(effect.item, Delivery)


class Forgetful(Floodsub):
    """Loses every seventh event."""

    came = 0

    def handle(self, event: Event, now: int) -> list[Effect]:
        return [effect for effect in super().handle(event, now) if not self._loses(effect)]

    def _loses(self, effect: Effect) -> bool:
        self.came += is_delivery(effect)
        return is_delivery(effect) and self.came % 7 == 0


class Indiscriminate(Floodsub):
    """Hands every event to every subscription."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.numbers: dict[int, None] = {}

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        self.numbers[subscription.number] = None
        return super().subscribe(subscription, now)

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = [effect for effect in super().handle(event, now) if not is_delivery(effect)]
        if isinstance(event, Received) and isinstance(event.message, Rpc) and self.numbers:
            effects += [
                Deliver(Delivery(copy.event, tuple(self.numbers), copy.hops))
                for copy in event.message.publish
                if any(isinstance(effect, Send) for effect in effects)  # Seen for the first time.
            ]
        return effects


class Stuttering(Floodsub):
    """Hands over everything twice."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        return [*effects, *filter(is_delivery, effects)]


class Procrastinating(Floodsub):
    """Acknowledges at once, and sends a second later."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.kept: list[Effect] = []

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        effects = super().publish(publication, now, wants_all=wants_all)
        self.kept += [effect for effect in effects if isinstance(effect, Send)]
        others = [effect for effect in effects if not isinstance(effect, Send)]
        return [*others, SetTimer(("flood", "later"), now + SECOND)]

    def handle(self, event: Event, now: int) -> list[Effect]:
        if event == TimerFired(("flood", "later")):
            kept, self.kept = self.kept, []
            return kept
        return super().handle(event, now)


class Shuffling(Floodsub):
    """Sends every third event of its own a second later than it should."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.kept: Publication | None = None

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        if publication.id.number % 3:
            return super().publish(publication, now, wants_all=wants_all)
        self.kept = publication
        return [SetTimer(("flood", "later"), now + SECOND)]

    def handle(self, event: Event, now: int) -> list[Effect]:
        if event == TimerFired(("flood", "later")) and self.kept is not None:
            return super().publish(self.kept, now)
        return super().handle(event, now)


class Summarising(Floodsub):
    """Shows a summary of its subscriptions; this one is right."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.members: list[Predicate] = []

    def subscribe(self, subscription: Subscription, now: int) -> list[Effect]:
        self.members.append(subscription.predicate)
        return super().subscribe(subscription, now)

    def inspect(self) -> Inspection:
        return Inspection(summaries=(Summary(tuple(self.members), tuple(self.shown())),))

    def shown(self) -> list[Predicate]:
        filters = FilterSet()
        for key, member in enumerate(self.members):
            filters.add(key, member)
        return filters.summary()


class MergingTooWidely(Summarising):
    """Merges ranges of the same names whether or not they touch."""

    def shown(self) -> list[Predicate]:
        merged: dict[str, Predicate] = {}
        for member in self.members:
            names = "/".join(sorted(member.attributes))
            merged[names] = hull(merged.get(names, member), member)
        return list(merged.values())


class MergingTooLittle(Summarising):
    """Forgets the last of its filters."""

    def shown(self) -> list[Predicate]:
        return super().shown()[:-1]


def hull(one: Predicate, other: Predicate) -> Predicate:
    attributes: dict[str, Interval | None] = {}
    for name, wanted in one.attributes.items():
        also = other.attributes[name]
        attributes[name] = None if wanted is None or also is None else wanted.hull(also)
    return Predicate.unchecked(attributes)


class Deaf(Floodsub):
    """Acknowledges an unsubscribe, and goes on."""

    def unsubscribe(self, number: int, _now: int) -> list[Effect]:
        return [Deliver(Unsubscribed(Subscription(number, Predicate.parse("whatever"))))]


class Mute(Floodsub):
    """Never acknowledges an unsubscribe."""

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        super().unsubscribe(number, now)
        return []


class Tardy(Floodsub):
    """Acknowledges an unsubscribe two minutes later."""

    late: Effect | None = None

    def unsubscribe(self, number: int, now: int) -> list[Effect]:
        (self.late,) = super().unsubscribe(number, now)
        return [SetTimer(("flood", "late"), now + 2 * MINUTE)]

    def handle(self, event: Event, now: int) -> list[Effect]:
        if event == TimerFired(("flood", "late")) and self.late is not None:
            return [self.late]
        return super().handle(event, now)


class Renewing(Floodsub):
    """Greets its peers every minute, and serves those that it has heard of lately."""

    keeps_us = 4 * MINUTE

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.heard_at: dict[Peer, int] = {}

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Received):
            self.heard_at[event.peer] = now
        elif event == TimerFired(("flood", "greet")):
            effects += [Send(peer, Rpc(subscribe=True)) for peer in self.peers]
            self.expire(now)
        return effects

    def expire(self, now: int) -> None:
        kept = {peer: at for peer, at in self.heard_at.items() if now - at < self.keeps_us}
        self.heard_at = kept

    def inspect(self) -> Inspection:
        return Inspection(served=tuple(self.heard_at))


class NeverExpiring(Renewing):
    """Serves all peers that it has ever heard of."""

    keeps_us = 10**18


class Unforgiving(Renewing):
    """Has nothing to do any more with peers that were silent for a while."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self.shunned: dict[Peer, None] = {}

    def handle(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Received) and event.peer in self.shunned:
            return []
        effects = super().handle(event, now)
        return [e for e in effects if not (isinstance(e, Send) and e.peer in self.shunned)]

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        effects = super().publish(publication, now, wants_all=wants_all)
        return [e for e in effects if not (isinstance(e, Send) and e.peer in self.shunned)]

    def expire(self, now: int) -> None:
        before = self.heard_at
        super().expire(now)
        self.shunned |= {peer: None for peer in before if peer not in self.heard_at}


class Hoarding(Floodsub):
    """Keeps all that it has seen, whatever its settings say."""

    def __init__(self, settings: FloodsubSettings, kademlia: Kademlia, signing: Signing) -> None:
        super().__init__(settings, kademlia, signing)
        self._seen = Seen(settings.seen_us, 10**9)


class Fickle(Floodsub):
    """Refuses what it has acknowledged."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        effects = super().publish(publication, now, wants_all=wants_all)
        assert Deliver(Published(publication.id)) in effects
        return [*effects, Deliver(Refused(publication.id, "on second thoughts, no"))]


class Unsorted(Floodsub):
    """Sends to its peers in an order that is another in every process."""

    def _flood(self, event: Publication, hops: int, came_from: Peer) -> list[Effect]:
        rpc = Rpc(publish=(Copy(event, hops),))
        others = set(self.peers) - {came_from, event.id.publisher}
        return [Send(peer, rpc) for peer in others]
