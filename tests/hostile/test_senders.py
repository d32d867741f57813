"""A peer without a role: what it claims to be is believed by no live node."""

from __future__ import annotations

from pathlib import Path

import trio
from libp2p.peer.id import ID

from smartpubsub import Node, Predicate
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.blocks import cid_from_text, cid_of
from smartpubsub.protocols.fastdelivery.messages import GroupNotify, Packet
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast.events import Draft, new_event
from smartpubsub.protocols.pulsarcast.messages import Parcel, Spread
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Alive,
    Bundle,
    CopyTree,
    Done,
    Notify,
    Part,
    Pull,
    Pulled,
    Raise,
    Record,
)
from smartpubsub.testbed.hostile.attacks import announcement
from tests.hostile.attacker import Attacker, attackers, contact_of, nodes, works
from tests.node.hosts import eventually, run
from tests.node.test_hung_peer import attribute_of

HEIGHT_MAX = (1 << 63) - 1
ACKNOWLEDGED_S_MAX = 20.0
"""Far more than a publish takes on a busy machine, and far less than for an event to lapse."""


def refused(node: Node, kind: type) -> int:
    return node._engine.tally.refused.get(refusal_of(kind), 0)


def parts_of(attacker: Attacker, kind: type[Part]) -> list[Part]:
    """The messages of a kind that have come to an attacker."""
    bundles = attacker.received(Bundle)
    return [part for bundle in bundles for part in bundle.parts if isinstance(part, kind)]


def test_a_stranger_is_no_rendezvous_and_answers_no_probe(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            attacker.script = lambda *_: []  # No node takes it into its routing table.
            assert await works(other, target)
            claims: list[Part] = [
                Pull("works0"),
                CopyTree("works0", True, 1 << 60, True, (), (), 2),
                *(Alive(number, 0) for number in range(6)),
            ]
            await attacker.send(target, Bundle(tuple(claims)))

            await eventually(lambda: refused(target, Alive) == 6)
            assert refused(target, Pull) == refused(target, CopyTree) == 1
            assert not parts_of(attacker, Pulled)
            assert await works(other, target)

    run(main)


def test_a_forged_acknowledgement_captures_no_publisher(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 3) as (target, other, _), attackers(target) as (attacker,):
            attacker.script = lambda *_: []
            async with other.subscribe("surf") as events:
                first = await target.publish("surf")
                _, incarnation, number = first.id.split("-")
                peer = contact_of(target).peer
                coming = range(int(number) + 1, int(number) + 21)
                ids = [EventId(peer, int(incarnation), number) for number in coming]

                async def forge() -> None:
                    while True:
                        forged = [Admitted(id, "surf", "") for id in ids]
                        await attacker.send(target, Bundle(tuple(forged)))
                        await trio.sleep(0.005)

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(forge)
                    await eventually(lambda: refused(target, Admitted) > 0)
                    sent = [first.id, *[(await target.publish("surf")).id for _ in ids]]
                    nursery.cancel_scope.cancel()
                assert [(await anext(events)).id for _ in sent] == sent
                assert not parts_of(attacker, Raise)

    run(main)


# --- a subscriber that does not confirm ---


async def subscribe(attacker: Attacker, node: Node, *others: Node) -> Notify:
    """Subscribe at a rendezvous, and confirm nothing; return the first event that comes."""
    attacker.script = lambda *_: []
    name = attribute_of(node.peer_id, str(ID(attacker.peer)), *(each.peer_id for each in others))
    await attacker.send(node, Bundle((announcement(name, 1, [name]),)))
    while not (notified := parts_of(attacker, Notify)):
        await node.publish(name, b"unconfirmed")
        await trio.sleep(0.05)
    assert isinstance(notified[0], Notify)
    return notified[0]


def open_events(node: Node) -> set[EventId]:
    scouts = node._engine.core.pubsub
    return {record.event.id for record in scouts.view().records}  # type: ignore[attr-defined]


def test_a_stranger_erases_no_event_from_its_holders(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 3) as holders, attackers(*holders) as (attacker,):
            event, name, *_ = await subscribe(attacker, *holders)
            await eventually(lambda: all(event.id in open_events(node) for node in holders))
            record = Record(event, name, 1, False, 29 * 60_000)
            for node in holders:
                await attacker.send(node, Bundle((record, Done(event.id, name))))
            await eventually(lambda: all(refused(node, Record) == 1 for node in holders))
            # The rendezvous ignores it: it knows by itself.
            await eventually(lambda: sum(refused(node, Done) for node in holders) == 2)
            assert all(event.id in open_events(node) for node in holders)

    run(main)


def test_a_subscriber_that_confirms_nothing_holds_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 3) as (target, other, third), attackers(target) as (attacker,):
            _, name, *_ = await subscribe(attacker, target, other, third)
            async with other.subscribe(name, buffer_count_max=1_000) as events:
                sent = []
                for _ in range(200):
                    with trio.fail_after(ACKNOWLEDGED_S_MAX):
                        sent.append((await target.publish(name)).id)
                got: list[str] = []
                with trio.fail_after(ACKNOWLEDGED_S_MAX):
                    while not set(sent) <= set(got):
                        got.append((await anext(events)).id)

    run(main)


# --- topics and groups ---


def test_an_event_with_an_invented_parent_blocks_no_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target, other) as (attacker,):
            topic = await target.create_topic("open to all")
            async with other.topic(topic.id).subscribe() as events:
                await topic.publish(b"before")
                id = EventId(attacker.peer, 1, 1)
                draft = Draft(topic=cid_from_text(topic.id), id=id, created_us=1, payload=b"x")
                parents = (cid_of(b"no block"),)
                signing = Ed25519Signing(attacker.identity)
                forged = new_event(draft, attacker.peer, parents, HEIGHT_MAX, signing)
                for node in (target, other):
                    await attacker.send(node, Parcel((Spread(forged.block, 0),)))
                hosts = [node._engine.host for node in (target, other)]
                await eventually(
                    lambda: all(host.counts.received_kinds["pulsarcast/spread"] for host in hosts)
                )
                await topic.publish(b"after")
                await other.topic(topic.id).publish(b"by another")
                payloads = {(await anext(events)).payload for _ in range(3)}
                assert payloads == {b"before", b"after", b"by another"}

    run(main)


def test_a_strangers_event_reaches_no_member_of_a_private_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (owner, member), attackers(member) as (attacker,):
            group = await owner.group("surf").create(private=True)
            invitation = await group.invite(member.peer_id)
            joined = member.group("surf", owner.addresses[0]).join(invitation=invitation)
            async with joined as events:
                surf, id = Predicate.parse("surf"), EventId(attacker.peer, 1, 1)
                signature = Ed25519Signing(attacker.identity).sign(id, surf, b"", 1)
                event = Publication.of(id, surf, b"", signature, 1)
                notify = GroupNotify(surf, event, 1, is_resend=False)
                await attacker.send(member, Packet(77, notify))
                await eventually(lambda: attacker.received(Packet, member))
                receipt = await group.publish("surf", b"of the owner")
                assert (await anext(events)).id == receipt.id

    run(main)
