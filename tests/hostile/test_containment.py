"""An exception costs a message, its sender a ban, and the node a restart of its core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from smartpubsub import Node
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.node.errors import NodeError
from smartpubsub.node.storage.store import StorageLimitError
from smartpubsub.node.transport.bans import Bans
from smartpubsub.node.transport.containment import CALM_S, Containment
from smartpubsub.protocols.pubsub import Convicted
from smartpubsub.protocols.scoutsubs.messages import Bundle, Pull
from smartpubsub.seam import Deliver, Disconnected, Effect, Event, Received, TimerFired
from tests.hostile.attacker import attackers, nodes, works
from tests.node.hosts import eventually, run

pytestmark = pytest.mark.contains_failures

POISON = Bundle((Pull("poison"),))


def fail_on(node: Node, is_poison: Any) -> None:
    """Have a node's core raise an exception for some events, as a defect would."""
    core: Any = node._engine.core
    handle = core.handle

    def handle_or_fail(event: Event, now: int) -> list[Effect]:
        if is_poison(event):
            raise KeyError("a defect")
        effects: list[Effect] = handle(event, now)
        return effects

    core.handle = handle_or_fail


def fail_on_poison(node: Node) -> None:
    fail_on(node, lambda event: isinstance(event, Received) and event.message == POISON)


def restarts(node: Node) -> int:
    return node.failures().restarts


def test_a_message_that_raises_costs_its_sender_a_ban_and_the_node_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            fail_on_poison(target)
            async with target.subscribe("surf") as events:
                await attacker.send(target, POISON)
                await eventually(lambda: restarts(target))
                assert [key.split(" in ")[0] for key in target.failures().dropped] == [
                    "Bundle: KeyError"
                ]
                assert target.failures().banned == 1
                await eventually(lambda: not attacker.is_connected(target))

                await other.publish("surf", b"still here")
                assert (await anext(events)).payload == b"still here"
            assert await works(target, other)

    run(main)


def test_a_banned_peer_is_refused_until_its_time_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,), attackers(target) as (attacker,):
            fail_on_poison(target)
            await attacker.send(target, POISON)
            await eventually(lambda: restarts(target))
            await eventually(lambda: not attacker.is_connected(target))

            async def is_answered(within_s: float) -> bool:
                with trio.move_on_after(within_s):
                    await attacker.ask(target, Message(Kind.PING))
                    return True
                return False

            host = target._engine.host
            while not host.counts.refused_banned:
                assert not await is_answered(0.2)
            assert target.failures().banned == 1

            host.bans._until[attacker.peer] = trio.current_time()
            assert target.failures().banned == 0
            await eventually(lambda: is_answered(5))

    run(main)


def test_a_convicted_peer_loses_its_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            await attacker.ask(target, Message(Kind.PING))
            host = target._engine.host
            assert attacker.peer in host.connected
            for _ in range(2):
                await host.do(lambda _: [Deliver(Convicted(attacker.peer))])
            await eventually(lambda: attacker.peer not in host.connected)
            assert [record.message for record in caplog.records].count("a peer is convicted") == 1

            async def is_refused() -> bool:
                with trio.move_on_after(0.2):
                    await attacker.ask(target, Message(Kind.PING))
                return host.counts.refused_banned > 0

            await eventually(is_refused)
            assert attacker.peer not in host.connected
            assert target.failures().banned == 0
            assert await works(target, other)

    run(main)


def test_the_core_learns_that_a_peer_banned_for_a_stream_is_disconnected(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,), attackers(target) as (attacker,):
            await attacker.ask(target, Message(Kind.PING))
            handled: list[Event] = []

            def is_poison(event: Event) -> bool:
                handled.append(event)
                return False

            fail_on(target, is_poison)
            target._engine.host._on_stream_failure(attacker.peer, KeyError("a defect"))
            await eventually(lambda: Disconnected(attacker.peer) in handled)
            assert restarts(target) == 0

    run(main)


def test_failures_long_ago_do_not_delay_a_restart_that_a_message_causes() -> None:
    containment = Containment(Bans(300, 10))
    for now in (0.0, 1.0, 2.0):
        containment.drop_input(TimerFired("x"), KeyError(), now)
    assert containment.pause_s > 0
    poison = Received(b"peer", POISON, ())
    containment.drop_input(poison, KeyError(), 3.0)
    assert containment.pause_s > 0
    containment.drop_input(poison, KeyError(), 3.0 + CALM_S)
    assert containment.pause_s == 0


def test_a_timer_that_raises_restarts_the_core(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,):
            fail_on(target, lambda event: isinstance(event, TimerFired))
            await eventually(lambda: restarts(target))
            assert [key.split(":")[0] for key in target.failures().dropped] == ["TimerFired"]
            assert target.failures().banned == 0
            assert await works(target)

    run(main)


def test_publishes_under_way_are_acknowledged_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            fail_on_poison(target)
            async with other.subscribe("surf") as events, trio.open_nursery() as nursery:
                target._engine.host.hold(True)
                for number in range(20):
                    nursery.start_soon(target.publish, "surf", b"%d" % number)
                await attacker.send(target, POISON)
                await eventually(lambda: len(target._engine.host._inbox) > 20)
                target._engine.host.hold(False)

                payloads = [(await anext(events)).payload for _ in range(20)]
            assert restarts(target) == 1
            assert sorted(payloads, key=int) == [b"%d" % number for number in range(20)]

    run(main)


def test_groups_and_topics_go_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            fail_on_poison(target)
            group = other.group("surf/price[0,100]")
            await group.create()
            topic = await other.create_topic("news")
            async with (
                target.group("surf/price[0,100]", other.addresses[0]).join() as members,
                target.topic(topic.id).subscribe() as readers,
            ):
                await attacker.send(target, POISON)
                await eventually(lambda: restarts(target))
                await group.publish("surf/price=5", b"to members")
                await topic.publish(b"to readers")

                assert (await anext(members)).payload == b"to members"
                assert (await anext(readers)).payload == b"to readers"

    run(main)


def test_a_storage_that_is_full_refuses_and_the_node_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, stored_bytes_max=1 << 20) as (target,):
            storage: Any = target._engine._storage
            apply = storage.apply

            def refuse_once(_: object) -> None:
                storage.apply = apply
                raise StorageLimitError("full")

            storage.apply = refuse_once
            with pytest.raises(StorageLimitError):
                async with target.subscribe("surf"):
                    pass
            await eventually(lambda: restarts(target))
            assert not await target.subscriptions()
            assert await works(target)

    run(main)


def test_a_call_that_a_restart_has_lost_ends_with_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, _), attackers(target) as (attacker,):
            fail_on_poison(target)

            async def search() -> None:
                with pytest.raises(NodeError, match="had to restart its protocols; try again"):
                    await target.search_groups("surf")

            async with trio.open_nursery() as nursery:
                target._engine.host.hold(True)
                nursery.start_soon(search)
                await attacker.send(target, POISON)
                await eventually(lambda: len(target._engine.host._inbox) > 1)
                target._engine.host.hold(False)

    run(main)


def test_a_host_that_is_not_to_contain_failures_ends_with_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path) as (target,), attackers(target) as (attacker,):
            attacker.script = lambda event, _: [][event.number]  # type: ignore[union-attr]
            await attacker.send(target, Message(Kind.FIND_NODE, b"surf"))
            await trio.sleep_forever()

    with pytest.raises((IndexError, ExceptionGroup)):
        run(main)
