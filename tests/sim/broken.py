"""Protocols that break a promise each, to see that it is noticed."""

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
    """Delivers every event of its own to a subscription that nobody made."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        pushed = Deliver(Delivery(publication, (999,), 0))
        return [pushed, *super().publish(publication, now, wants_all=wants_all)]


class Forger(Floodsub):
    """Delivers events that nobody has published."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        forged = publication._replace(id=publication.id._replace(number=10_000))
        return [
            Deliver(Delivery(forged, (1,), 0)),
            *super().publish(publication, now, wants_all=wants_all),
        ]


class Silent(Floodsub):
    """Says that an event is published, and tells nobody."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        return [Deliver(Published(publication.id))]


class Moody(Floodsub):
    """Never does the same again."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Started):
            effects.append(SetTimer(("flood", "mood"), now + next(_MOODS)))
        return effects


class Frail(Floodsub):
    """Breaks down when something is published."""

    def publish(
        self, publication: Publication, now: int, *, wants_all: bool = False
    ) -> list[Effect]:
        raise ZeroDivisionError("nobody has thought of this")


def spec_with(name: str, kind: type[Floodsub]) -> ProtocolSpec:
    """Floodsub with another core, by another name."""
    return replace(
        FLOODSUB_SPEC,
        name=name,
        make=lambda settings, kademlia, signing, _rng: kind(settings, kademlia, signing),
    )


def boastful(name: str, kind: type[Floodsub] = Floodsub) -> ProtocolSpec:
    """The same, promising what it cannot keep in some variants: that no event is lost."""
    return replace(
        spec_with(name, kind),
        variants=VARIANTS,
        is_reliable=lambda options: not options.variant.endswith("-unreliable"),
    )
