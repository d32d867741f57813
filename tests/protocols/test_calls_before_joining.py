"""Calls before a node has joined: those without room fail with a reason, and change nothing."""

from random import Random

import pytest

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pubsub import Subscription
from smartpubsub.protocols.registry import spec_of
from smartpubsub.protocols.runtime.deferred import Deferred, TooManyCallsError
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.seam import Effect, Load, Loaded, Started, Store
from smartpubsub.sim.kernel.population import contact_of
from smartpubsub.sim.kernel.signing import StandInSigning

PREDICATE = Predicate.parse("surf")


Rows = tuple[tuple[bytes, bytes], ...]


def started(protocol: str, stored: Rows = ()) -> NodeCore:
    own, rng = contact_of(1, 0), Random(1)
    kademlia, signing = Kademlia(own, Settings(), rng), StandInSigning(own.peer)
    spec = spec_of(protocol)
    options = ProtocolOptions(variant=spec.variant(None))
    core = NodeCore(kademlia, spec.core(options, kademlia, signing, rng), signing)
    for effect in core.handle(Started(0), 0):
        if isinstance(effect, Load):
            rows = tuple(row for row in stored if row[0].startswith(effect.prefix))
            core.handle(Loaded(effect.prefix, rows), 0)
    return core


@pytest.fixture(autouse=True)
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Deferred.__init__
    monkeypatch.setattr(Deferred, "__init__", lambda self, _: make(self, 2))


@pytest.mark.parametrize("protocol", ["scoutsubs", "fastdelivery"])
def test_a_subscription_without_room_fails_and_is_not_kept(protocol: str) -> None:
    core = started(protocol)
    numbers = [core.subscribe(PREDICATE, 0)[0] for _ in range(2)]
    with pytest.raises(TooManyCallsError, match="call again when it has"):
        core.subscribe(PREDICATE, 0)

    assert list(core.subscriptions) == numbers
    core.unsubscribe(numbers[0], 0)
    assert list(core.subscriptions) == numbers[1:]


@pytest.mark.parametrize("protocol", ["scoutsubs", "fastdelivery"])
def test_stored_subscriptions_without_room_begin_when_the_node_has_joined(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = started(protocol)
    before.settle([], 0)
    effects = [effect for _ in range(4) for effect in before.subscribe(PREDICATE, 0)[1]]
    rows = {one.key: one.value for one in effects if isinstance(one, Store)}

    core = started(protocol, tuple((key, value) for key, value in rows.items() if value))
    assert list(core.subscriptions) == list(before.subscriptions)
    subscribe, begun = core.pubsub.subscribe, []

    def noted(subscription: Subscription, now: int) -> list[Effect]:
        begun.append(subscription.number)
        return subscribe(subscription, now)

    monkeypatch.setattr(core.pubsub, "subscribe", noted)
    core.settle([], 0)
    assert begun == list(core.subscriptions)[2:]
