"""The registry of protocols: the built-in ones, and those that other packages register.

Another package adds a protocol by an entry point in the group `smartpubsub.protocols` that names a
`ProtocolSpec`, or by a call of `register`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.baselines.spec import FLOODSUB_SPEC, GOSSIPSUB_SPEC
from smartpubsub.protocols.codecs import Codec, WireLimits, common_codecs
from smartpubsub.protocols.fastdelivery.spec import FASTDELIVERY_SPEC
from smartpubsub.protocols.pulsarcast.spec import PULSARCAST_SPEC
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS_SPEC
from smartpubsub.protocols.spec import ProtocolSpec

ENTRY_POINTS = "smartpubsub.protocols"
BUILT_IN = (SCOUTSUBS_SPEC, FASTDELIVERY_SPEC, PULSARCAST_SPEC, FLOODSUB_SPEC, GOSSIPSUB_SPEC)

_log = logging.getLogger(__name__)


class UnknownProtocolError(SmartPubSubError):
    """A name that no protocol has."""


class RegistrationError(SmartPubSubError):
    """A protocol that cannot be registered."""


class Registry:
    """Specs of protocols, by their names."""

    def __init__(self, built_in: Iterable[ProtocolSpec]) -> None:
        self._specs = {spec.name: spec for spec in built_in}
        self._problems: list[str] = []
        """Why protocols of entry points could not be registered."""
        self._has_looked = False

    @property
    def specs(self) -> dict[str, ProtocolSpec]:
        """All specs, those of entry points included."""
        if not self._has_looked:
            self._has_looked = True  # First, because a loaded module may ask for the registry.
            for entry_point in entry_points(group=ENTRY_POINTS):
                self._load(entry_point)
        return self._specs

    def register(self, spec: ProtocolSpec) -> None:
        """Add a protocol; users can name it from then on like a built-in one."""
        if not isinstance(spec, ProtocolSpec):
            raise RegistrationError(f"{spec!r} is no ProtocolSpec; register a ProtocolSpec")
        known = self._specs.setdefault(spec.name, spec)
        if known is not spec:
            raise RegistrationError(
                f"there is another protocol {spec.name!r}; register this one by another name"
            )

    def spec_of(self, name: str) -> ProtocolSpec:
        """The protocol of this name; UnknownProtocolError lists the names that exist."""
        spec = self.specs.get(name)
        if spec is None:
            problems = "".join(f"; {problem}" for problem in self._problems)
            raise UnknownProtocolError(
                f"{name!r} is not a protocol; there are: {', '.join(self.specs)}{problems}"
            )
        return spec

    def variants(self) -> tuple[str, ...]:
        """The variants of all protocols, each once."""
        named = dict.fromkeys(name for spec in self.specs.values() for name in spec.variants)
        return tuple(named)

    def residents_beside(self, name: str) -> list[ProtocolSpec]:
        """The protocols that a live node runs beside the one that carries its subscriptions."""
        return [s for s in self.specs.values() if s.resident is not None and s.name != name]

    def codecs_of(self, name: str, limits: WireLimits | None = None) -> list[Codec]:
        """The codecs of all messages of a live node: of Kademlia, its protocol and residents."""
        limits = limits or WireLimits()
        above = [self.spec_of(name), *self.residents_beside(name)]
        codecs = [*common_codecs(Settings()), *(c for spec in above for c in spec.codecs(limits))]
        return [
            replace(codec, message_bytes_max=min(codec.message_bytes_max, limits.message_bytes_max))
            for codec in codecs
        ]

    def _load(self, entry_point: EntryPoint) -> None:
        try:
            self.register(entry_point.load())
        except Exception as error:  # A broken package must not take the other protocols with it.
            problem = (
                f"the entry point {entry_point.name} = {entry_point.value} could not be loaded:"
                f" {type(error).__name__}: {error}; repair or remove its package"
            )
            self._problems.append(problem)
            _log.warning(problem)


PROTOCOLS = Registry(BUILT_IN)
"""The registry of this process."""


def register(spec: ProtocolSpec) -> None:
    """Add a protocol to the registry of this process."""
    PROTOCOLS.register(spec)


def spec_of(name: str) -> ProtocolSpec:
    """The protocol of this name; UnknownProtocolError lists the names that exist."""
    return PROTOCOLS.spec_of(name)


def protocol_names() -> Sequence[str]:
    """The names of all protocols, the built-in ones first."""
    return list(PROTOCOLS.specs)


def codecs_of(name: str, limits: WireLimits | None = None) -> list[Codec]:
    """The codecs of all messages of a live node that runs a protocol."""
    return PROTOCOLS.codecs_of(name, limits)
