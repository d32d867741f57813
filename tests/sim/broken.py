"""Protocols that each break one promise; a checker must find it."""

from dataclasses import replace
from itertools import count

from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.baselines.spec import FLOODSUB_SPEC
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery, Published
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.seam import Deliver, Effect, Event, SetTimer, Started

_MOODS = count()


class Pushy(Floodsub):
    """Delivers each of its own events to a subscription that does not exist."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        pushed = Deliver(Delivery(publication, (999,), 0))
        return [pushed, *super().publish(publication, now, wants_all=wants_all)]


class Forger(Floodsub):
    """Delivers events that were never published."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        forged = publication._replace(id=publication.id._replace(number=10_000))
        return [
            Deliver(Delivery(forged, (1,), 0)),
            *super().publish(publication, now, wants_all=wants_all),
        ]


class Silent(Floodsub):
    """Acknowledges events, and sends them to no node."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        return [Deliver(Published(publication.id))]


class Moody(Floodsub):
    """Behaves differently in each run."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Started):
            effects.append(SetTimer(("flood", "mood"), now + next(_MOODS)))
        return effects


class Greedy(Floodsub):
    """Breaks an invariant of its state with the first event that it publishes."""

    published = 0

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        self.published += 1
        return super().publish(publication, now, wants_all=wants_all)

    def check(self) -> None:
        assert not self.published, f"{self.published} events are too many"


class Muddled(Greedy):
    """The same, and its check fails by another exception than an assertion."""

    def check(self) -> None:
        if self.published:
            raise KeyError("published")


class Frail(Floodsub):
    """Raises an exception when an event is published."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        raise ZeroDivisionError("a bug")


def spec_with(name: str, kind: type[Floodsub]) -> ProtocolSpec:
    """Floodsub with another core, by another name."""
    return replace(
        FLOODSUB_SPEC,
        name=name,
        make=lambda settings, kademlia, signing, _rng: kind(settings, kademlia, signing),
    )


def boastful(name: str, kind: type[Floodsub] = Floodsub) -> ProtocolSpec:
    """The same, with the promise that no event gets lost, which Floodsub cannot keep."""
    return replace(
        spec_with(name, kind),
        variants=VARIANTS,
        is_reliable=lambda options: not options.variant.endswith("-unreliable"),
    )
