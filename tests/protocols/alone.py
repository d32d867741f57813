"""One GossipSub core without a network, and what it wants done."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Joined
from smartpubsub.kademlia.settings import SECOND, Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.gossipsub import GossipSub
from smartpubsub.protocols.baselines.messages import Control, Copy, Rpc
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Effect, Event, Indication, Peer, Received, Send, Started, TimerFired
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.network import contact

SURF = Predicate.parse("surf")


def peer(number: int) -> Peer:
    return contact(number).peer


def event(number: int, publisher: int = 900) -> Publication:
    id = EventId(peer(publisher), 0, number)
    return Publication.of(id, SURF, b"", StandInSigning(id.publisher).sign(id, SURF, b""))


def forged(number: int) -> Publication:
    return event(number)._replace(signature=b"somebody else's")


@dataclass
class Alone:
    """A core that knows the peers 1 to count, and a clock to be moved."""

    count: int
    settings: GossipSettings = field(default_factory=GossipSettings)
    now: int = 0
    sent: list[Send] = field(default_factory=list)

    def __post_init__(self) -> None:
        kademlia = Kademlia(contact(0), Settings(k=100), Random(1))
        for number in range(1, self.count + 1):
            kademlia.table.heard_from(contact(number), self.now)
        self.core = GossipSub(self.settings, kademlia, StandInSigning(peer(0)), Random(2))
        self.handle(Started())
        self.handle(Indication(Joined(self.count)))
        self.take()

    def handle(self, trigger: Event) -> None:
        self._note(self.core.handle(trigger, self.now))

    def _note(self, effects: Iterable[Effect]) -> None:
        self.sent += [effect for effect in effects if isinstance(effect, Send)]

    def take(self) -> list[Send]:
        """What was sent since this was asked last."""
        sent, self.sent = self.sent, []
        return sent

    def heartbeats(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += SECOND
            self.handle(TimerFired(("gossip", "heartbeat")))

    def hear(self, number: int, *events: Publication, control: Control | None = None) -> None:
        copies = tuple(Copy(publication, 1) for publication in events)
        self.handle(Received(peer(number), Rpc(publish=copies, control=control)))

    def publish(self, publication: Publication) -> None:
        self._note(self.core.publish(publication, self.now))

    def score(self, number: int) -> float:
        return self.core.scores.score(peer(number), self.now)

    @property
    def mesh(self) -> list[int]:
        return [number for number in range(1, 1000) if peer(number) in self.core.mesh.members]

    def controls(self) -> dict[Peer, Control]:
        """The control messages sent since anything was taken, by receiver."""
        rpcs = {send.peer: send.message for send in self.take() if isinstance(send.message, Rpc)}
        return {peer: rpc.control for peer, rpc in rpcs.items() if rpc.control is not None}
