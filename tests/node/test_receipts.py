"""Who keeps an event has signed that, and a receipt proves it to anybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smartpubsub import Node
from smartpubsub.kademlia.keys import key_of
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.receipts import Receipt, ReceiptError
from smartpubsub.node.errors import PublishNotInTimeError
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Held
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.attestation import Attestation, held_bytes
from smartpubsub.protocols.scoutsubs.messages import Admitted, Bundle, Part, encode
from smartpubsub.protocols.scoutsubs.spec import SCOUTSUBS
from tests.node.hosts import LOOPBACK, connections, eventually, run
from tests.node.test_node import node_in, three_nodes

ALICE, BOB = (Identity.of(bytes(31) + letter) for letter in (b"a", b"b"))
ID = EventId(ALICE.peer, 3, 4)


def receipt() -> Receipt:
    content = held_bytes(ID, "surf")
    *_, evidence = Ed25519Signing(BOB).sign_statements([lambda: b"other", lambda: content])
    return Receipt(ID, Wait.RENDEZVOUS, (Held("surf", BOB.peer, evidence),))


def test_a_receipt_proves_itself() -> None:
    assert receipt().verify()
    assert not replace(receipt(), event_id=ID._replace(number=5)).verify()
    for change in (
        {"attribute": "rain"},
        {"peer": ALICE.peer},
        {"evidence": bytes(64)},
        {"evidence": b""},
    ):
        [held] = receipt().held
        assert not replace(receipt(), held=(held, held._replace(**change))).verify()
    assert not replace(receipt(), held=()).verify()


def test_a_receipt_can_be_written_down() -> None:
    written = json.dumps(receipt().document())

    assert Receipt.read(json.loads(written)) == receipt()
    shown = repr(replace(receipt(), replicas_wanted=3))
    assert shown == f"Receipt('{receipt().id}', 'rendezvous', 1 of 3)"


@pytest.mark.parametrize(
    "change",
    [
        {"publisher": 5},
        {"publisher": "0"},
        {"number": "many"},
        {"held": None},
        {"held": [{}]},
        {"held": [{"attribute": "a", "peer": "1", "signature": "-"}]},
        {"waited_for": "long"},
    ],
)
def test_what_is_no_receipt_is_told(change: dict[str, Any]) -> None:
    with pytest.raises(ReceiptError, match="the document is not a receipt"):
        Receipt.read(receipt().document() | change)


@pytest.mark.parametrize("wait", [Wait.RENDEZVOUS, Wait.ALL])
def test_a_publisher_gets_a_receipt_from_all_who_keep_an_event(tmp_path: Path, wait: Wait) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as nodes, nodes[2].subscribe("surf"):
            receipt = await nodes[1].publish("surf/price=15", b"an offer", wait=wait)

            assert receipt.verify()
            everybody = {node.peer_id for node in nodes}
            document = receipt.document()
            # The rendezvous of each attribute and both others, which are its backups.
            signers = {(held["attribute"], held["peer"]) for held in document["held"]}
            assert signers == {(name, peer) for name in ("surf", "price") for peer in everybody}
            assert len(document["held"]) == 6
            assert document["publisher"] == nodes[1].peer_id
            assert Receipt.read(document).verify()

    run(main)


def test_a_lone_node_signs_for_itself_and_who_waits_for_nothing_has_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node:
            receipt = await node.publish("surf")
            assert receipt.verify()
            assert [held["peer"] for held in receipt.document()["held"]] == [node.peer_id]
            assert not (await node.publish("surf", wait=Wait.NOTHING)).verify()

    run(main)


def test_between_real_nodes_what_nobody_waits_for_has_no_effect(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path, listen=[LOOPBACK]) as node,
            connections(identity=BOB) as stranger,
        ):
            own = node._engine.host.own
            scouts = node._engine.core.pubsub
            await stranger.dial(own.peer, own.addresses[0])
            stream = await stranger.open(own.peer, SCOUTSUBS)
            id = EventId(own.peer, 1, 1)
            queue: list[Part] = [Admitted(id, "surf", "")]
            Attestation(Ed25519Signing(ALICE)).sign([queue])
            for forged in (Admitted(id, "surf", ""), *queue):
                await stream.write(encode(Bundle((forged,))))
            reason = refusal_of(Admitted)
            await eventually(lambda: scouts.tally().refused[reason] == 2)
            expected = f'reject_reason_total{{reason="{reason}"}} 2.0'
            assert expected in (await node.metrics()).decode()

    run(main)


def test_who_waits_for_all_learns_that_an_event_is_published_although_somebody_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with node_in(tmp_path) as node, node.subscribe("surf") as events:
            monkeypatch.setattr(node._engine.calls, "acknowledge", but_for_all(node))
            with pytest.raises(PublishNotInTimeError) as caught:
                await node.publish("surf", wait=Wait.ALL, deadline_s=0.5)
            id = (await anext(events)).id
            assert str(caught.value) == (
                f"the event surf is published as {id} and acknowledged, but not all subscribers"
                " have confirmed it within 0.5 seconds; the network goes on delivering it, so do"
                f" not publish it again; ask with: smartpubsub event {id}"
            )
            assert caught.value.id == id

    run(main)


def but_for_all(node: Node) -> Callable[[str, Hashable], None]:
    """Acknowledges as a node does to which somebody is away who wants its events."""
    acknowledge = node._engine.calls.acknowledge
    return lambda what, about: None if what == Wait.ALL.value else acknowledge(what, about)


def host_received(node: Node) -> int:
    return node._engine.host.counts.received_kinds["scoutsubs/announce"]


def is_closer(peer: bytes, other: bytes, name: str) -> bool:
    """Whether a peer lies closer to a name than another does."""
    key = key_of(name.encode())
    return key_of(peer) ^ key < key_of(other) ^ key
