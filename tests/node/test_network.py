"""Nodes find each other on real connections, deliver, and go on when some of them do not."""

import pytest
import trio

from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.protocols.pubsub import Published, Subscribed
from tests.node.hosts import Memory, Node, eventually, network, run

EITHER = pytest.mark.parametrize("protocol", ["floodsub", "scoutsubs"])
COUNT = pytest.mark.parametrize("count", [2, 5])


@EITHER
@COUNT
def test_events_reach_those_who_want_them(protocol: str, count: int) -> None:
    async def main() -> None:
        async with network(count, protocol) as nodes:
            for node in nodes[1:]:
                await node.subscribe("surf/price[10,20]")
            await nodes[0].publish("surf/price=5", b"cheap")
            await nodes[0].publish("surf/price=15", b"right")
            await eventually(lambda: all(node.payloads for node in nodes[1:]))

            assert [node.payloads for node in nodes[1:]] == [[b"right"]] * (count - 1)
            assert nodes[0].payloads == []

    run(main)


@EITHER
def test_many_events_come_in_order(protocol: str) -> None:
    sent = [b"%d" % number for number in range(500)]

    async def main() -> None:
        async with network(2, protocol) as (publisher, subscriber):
            await subscriber.subscribe("surf")
            for payload in sent:
                await publisher.publish("surf", payload)
            await eventually(lambda: len(subscriber.payloads) == len(sent))

            assert subscriber.payloads == sent
            assert publisher.host.counts.dropped == 0

    run(main)


@EITHER
def test_the_others_go_on_when_one_crashes(protocol: str) -> None:
    async def main() -> None:
        async with network(5, protocol) as nodes:
            publisher, *subscribers, victim = nodes
            for node in subscribers:
                await node.subscribe("surf")
            victim.crash()
            await eventually(
                lambda: not any(victim.identity.peer in n.host.connections for n in nodes[:-1])
            )
            await publisher.publish("surf", b"still here")
            await eventually(lambda: all(node.payloads for node in subscribers))

    run(main)


def test_a_peer_that_is_gone_is_not_sent_to() -> None:
    async def main() -> None:
        async with network(3) as (first, second, victim):
            victim.crash()

            await eventually(lambda: first.peer_count == second.peer_count == 1)

    run(main)


@EITHER
def test_a_node_that_is_started_again_keeps_its_subscriptions(protocol: str) -> None:
    async def main() -> None:
        async with network(3, protocol) as (first, second, third), trio.open_nursery() as nursery:
            await third.subscribe("surf")
            third.crash()
            await eventually(
                lambda: not any(third.identity.peer in n.host.connections for n in (first, second))
            )

            again = Node(protocol, identity=third.identity, storage=third.storage)
            await again.start(nursery)
            await eventually(lambda: again.has(Subscribed))
            if protocol == "floodsub":
                # It sends an event once, also if the connection to the former node is just ending.
                peer = again.identity.peer
                await eventually(lambda: first.peer_count == 2 and peer in first.host.connections)
            await first.publish("surf", b"welcome back")
            await eventually(lambda: again.payloads)

            assert again.payloads == [b"welcome back"]
            nursery.cancel_scope.cancel()

    run(main)


def test_every_start_is_a_later_incarnation() -> None:
    async def incarnation_of(node: Node) -> int:
        async with trio.open_nursery() as nursery:
            await node.start(nursery)
            id = await node.publish("surf")
            await eventually(lambda: node.has(Published))
            await node.host.stop()
        return id.incarnation

    async def main() -> None:
        kept = Memory()
        first = Node(storage=kept)
        later = [Node(identity=first.identity, storage=kept) for _ in range(2)]
        starts = [await incarnation_of(node) for node in (first, *later)]

        assert starts == sorted(set(starts))

    run(main)


def test_what_is_to_be_sent_is_sent_before_a_node_stops() -> None:
    async def main() -> None:
        async with network(2) as (publisher, subscriber):
            await subscriber.subscribe("surf")
            for number in range(100):
                await publisher.publish("surf", b"%d" % number)
            await publisher.host.stop()
            await eventually(lambda: len(subscriber.payloads) == 100)

    run(main)


def test_a_slow_reader_does_not_hold_up_the_others() -> None:
    sent = [b"%03d" % number + bytes(20_000) for number in range(200)]

    async def main() -> None:
        tight = HostSettings(queue_bytes_max=200_000, event_count_max=4)
        async with network(3, settings=tight) as (publisher, subscriber, sluggish):
            await subscriber.subscribe("surf")
            sluggish.host.hold(True)
            for payload in sent:
                await publisher.publish("surf", payload)
                await eventually(lambda: payload in subscriber.payloads)  # noqa: B023

            assert subscriber.payloads == sent
            assert publisher.host.counts.dropped_full > 0
            assert sluggish.identity.peer in publisher.host.connections

    run(main)
