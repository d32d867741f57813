"""The topics of a running node."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from smartpubsub.client.documents import (
    descriptor_in,
    entry_in,
    gaps_in,
    known_topic_in,
    stock_in,
)
from smartpubsub.client.subscriptions import ClientTopicSubscription, past_fields, reading_fields
from smartpubsub.client.transport import Transport
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.listing import History, KnownTopic, Stock, TopicBlocks
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.receipts import TopicReceipt
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.api.topic_rules import RulesWanted
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast import topics as descriptors

IMPORT_BYTES = 1 << 20
"""The number of bytes sent to the node at once."""


class ClientTopics:
    """Implements `TopicsPort` by requests."""

    def __init__(self, transport: Transport, serializer: Serializer) -> None:
        self._transport = transport
        self._serializer = serializer

    async def create(
        self, name: str, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> Cid:
        """Create a topic, and wait until its keepers have stored it."""
        fields = {"name": name, **_rules(wanted, subtopics)}
        made = await self._transport.ask("topic-create", fields)
        return cid_from_text(made["topic"])

    async def update(
        self, topic: Cid, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> descriptors.Topic:
        """Make a new version of a topic, and wait until its keepers have stored it."""
        fields = {"topic": cid_text(topic), **_rules(wanted, subtopics)}
        made = await self._transport.ask("topic-update", fields)
        versions = await self.versions(cid_from_text(made["topic"]))
        return next(version for version in versions if cid_text(version.cid) == made["topic"])

    async def versions(self, topic: Cid) -> Sequence[descriptors.Topic]:
        """All versions of a topic, the newest first."""
        fields = {"topic": cid_text(topic), "proof": True}
        shown = await self._transport.ask("topic-show", fields)
        return [descriptor_in(version) for version in shown["versions"]]

    async def pin(self, topic: Cid, is_pinned: bool) -> None:
        """Pin or unpin a topic."""
        fields = {"topic": cid_text(topic), "pinned": is_pinned}
        await self._transport.ask("topic-pin", fields)

    async def stock(self, topic: Cid) -> Stock:
        """Report which events of a topic the node keeps."""
        shown = await self._transport.ask("topic-show", {"topic": cid_text(topic)})
        return stock_in(shown["kept"])

    async def publish(
        self,
        topic: Cid,
        payload: bytes,
        parents: tuple[Cid, ...] | None,
        wait: Wait,
        deadline_s: float,
        key: str | None,
    ) -> TopicReceipt:
        """Publish in a topic, or ask a publisher of the topic to do so."""
        fields: dict[str, object] = {
            "topic": cid_text(topic),
            "payload": base64.b64encode(payload).decode(),
            "wait": wait.value,
            "deadline_s": deadline_s,
        }
        if parents is not None:
            fields["parents"] = [cid_text(parent) for parent in parents]
        if key is not None:
            fields["key"] = key
        done = await self._transport.ask("topic-publish", fields)
        receipt = TopicReceipt.read(done["receipt"])
        assert isinstance(receipt, TopicReceipt)
        return replace(receipt, content_id=done["id"])

    def subscription(self, topic: Cid, options: ReadOptions) -> ClientTopicSubscription:
        """Make a subscription to a topic."""
        return ClientTopicSubscription(
            self._transport,
            "topic-subscribe",
            {"topic": cid_text(topic), "keep": options.keep, **reading_fields(options)},
            Predicate.of({cid_text(topic): True}),
            options,
            self._serializer,
        )

    async def history(self, topic: Cid, since: str | datetime | None, last: int | None) -> History:
        """Read events of a topic, in its order."""
        fields = {"topic": cid_text(topic), "proof": True, **past_fields(since, last)}
        begun, lines = await self._all_lines("topic-history", fields)
        entries = [entry_in(line["event"], self._serializer) for line in lines]
        return History(entries, gaps_in(begun["gaps"]))

    async def blocks(self, topic: Cid) -> TopicBlocks:
        """All blocks of a topic."""
        begun, lines = await self._all_lines("topic-export", {"topic": cid_text(topic)})
        roots = [cid_from_text(root) for root in begun["roots"]]
        blocks = [base64.b64decode(line["block"]) for line in lines]
        return TopicBlocks(roots, blocks, gaps_in(begun["gaps"]))

    async def _all_lines(
        self, do: str, fields: Mapping[str, object]
    ) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
        lines = await self._transport.open(do, fields)
        try:
            found: list[Mapping[str, Any]] = []
            while (line := await lines.next()) is not None:
                found.append(line)
        finally:
            await lines.close()
        return lines.begun, found

    async def known(self) -> list[KnownTopic]:
        """List the topics that the node knows, by name."""
        topics = await self._transport.ask("topic-list", {"proof": True})
        return [known_topic_in(topic) for topic in topics]

    async def take(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a file; return how many were valid."""
        good, batch, size = 0, list[str](), 0
        for block in blocks:
            batch.append(base64.b64encode(block).decode())
            size += len(block)
            if size >= IMPORT_BYTES:
                good += (await self._transport.ask("topic-import", {"blocks": batch}))["blocks"]
                batch, size = [], 0
        if batch:
            good += (await self._transport.ask("topic-import", {"blocks": batch}))["blocks"]
        return good


def _rules(wanted: RulesWanted, subtopics: Mapping[str, str | None]) -> dict[str, object]:
    fields: dict[str, object] = {"subtopics": dict(subtopics)}
    if wanted.ordered is not None:
        fields["ordered"] = wanted.ordered
    for name in ("publishers", "requesters"):
        peers = getattr(wanted, name)
        if peers is not None:
            fields[name] = [peers] if isinstance(peers, str) else [*peers]
    if wanted.linking is not None:
        fields["linking"] = wanted.linking
    return fields
