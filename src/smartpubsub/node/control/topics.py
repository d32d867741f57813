"""Requests about topics on the control socket."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from smartpubsub.node.api.node import Node
from smartpubsub.node.api.past import event_or_time, time_us
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_events import Entry, Gaps
from smartpubsub.node.api.topics import Stock
from smartpubsub.node.control.requests import Request
from smartpubsub.node.identity import peer_text
from smartpubsub.node.transport.contacts import contact_of
from smartpubsub.protocols.blocks import cid_text, time_text
from smartpubsub.protocols.pulsarcast import topics as descriptors

Say = Callable[..., Awaitable[None]]
"""Sends a line to the client; the first argument is the request's id."""


class TopicRequests:
    """A client's requests about topics."""

    def __init__(self, node: Node, say: Say) -> None:
        self._node = node
        self._say = say

    @property
    def actions(self) -> dict[str, Callable[[Request], Awaitable[None]]]:
        """The handler of each request."""
        return {
            "topic-create": self._create,
            "topic-list": self._list,
            "topic-update": self._update,
            "topic-show": self._show,
            "topic-pin": self._pin,
            "topic-publish": self._publish,
            "topic-subscribe": self._subscribe,
            "topic-history": self._history,
            "topic-export": self._export,
            "topic-import": self._import,
        }

    async def _create(self, request: Request) -> None:
        wanted = request.fields
        topic = await self._node.create_topic(wanted["name"], **_rules(wanted))
        await self._say(request.id, ok=await self._described(topic))

    async def _list(self, request: Request) -> None:
        topics = [
            {
                "topic": cid_text(known.topic.cid),
                "name": known.topic.name,
                "author": peer_text(known.topic.author),
                "is_own": known.is_own,
                "subscriptions": known.subscription_count,
                "kept": {"for_others": known.is_kept_for_others, **_stock(known.stock)},
            }
            for known in self._node.topics()
        ]
        await self._say(request.id, ok=topics)

    async def _update(self, request: Request) -> None:
        topic = self._node.topic(request.fields["topic"])
        await topic.update(**_rules(request.fields))
        await self._say(request.id, ok=await self._described(topic))

    async def _show(self, request: Request) -> None:
        topic = self._node.topic(request.fields["topic"])
        await self._say(request.id, ok=await self._described(topic))

    async def _described(self, topic: Topic) -> dict[str, Any]:
        versions = await topic.versions()
        stock = topic.stock()
        newest, own = versions[0], contact_of(self._node.peer_id).peer
        return {
            **_descriptor(newest),
            "may_publish": newest.rules.may_publish(own),
            "may_request": newest.rules.may_request(own),
            "versions": [
                {"topic": cid_text(v.cid), "version": v.version, "created": time_text(v.created_us)}
                for v in versions
            ],
            "kept": _stock(stock),
        }

    async def _pin(self, request: Request) -> None:
        topic = self._node.topic(request.fields["topic"])
        if request.fields["pinned"]:
            await topic.pin()
        else:
            await topic.unpin()
        await self._say(request.id, ok={"topic": topic.id, "is_pinned": request.fields["pinned"]})

    async def _publish(self, request: Request) -> None:
        wanted = request.fields
        topic = self._node.topic(wanted["topic"])
        receipt = await topic.publish(
            wanted["payload"],
            parents=wanted["parents"],
            wait=wanted["wait"],
            key=wanted["key"],
            deadline_s=wanted["deadline_s"],
        )
        said = {"id": receipt.content_id, "event": receipt.id, "topic": topic.id}
        await self._say(request.id, ok=said)

    async def _subscribe(self, request: Request) -> None:
        wanted = request.fields
        topic, since, last = self._node.topic(wanted["topic"]), _since(wanted), wanted["last"]
        subscription = (
            topic.keep(since=since, last=last, acknowledges=False)
            if wanted["keep"]
            else topic.subscribe(since=since, last=last, overflow=wanted["overflow"])
        )
        async with subscription:
            gaps = _gaps(subscription.gaps)
            await self._say(request.id, ok={"subscription": subscription.number, "gaps": gaps})
            sent = 0
            while sent != wanted["limit"]:
                entry = await anext(subscription, None)
                if not isinstance(entry, Entry):
                    break
                await self._say(request.id, event=_entry(entry), dropped=subscription.dropped)
                sent += 1
        await self._say(request.id, end=True)

    async def _history(self, request: Request) -> None:
        wanted = request.fields
        topic = self._node.topic(wanted["topic"])
        entries = await topic.history(since=_since(wanted), last=wanted["last"])
        await self._say(request.id, ok={"subscription": 0, "gaps": _gaps(entries.gaps)})
        for entry in entries:
            await self._say(request.id, event=_entry(entry), dropped=0)
        await self._say(request.id, end=True)

    async def _export(self, request: Request) -> None:
        topic = self._node.topic(request.fields["topic"])
        done = await topic.export(request.fields["file"])
        said = {"topic": topic.id, "blocks": done.block_count, "gaps": _gaps(done.gaps)}
        await self._say(request.id, ok=said)

    async def _import(self, request: Request) -> None:
        good = await self._node.import_blocks(request.fields["blocks"])
        await self._say(request.id, ok={"blocks": good})


def _since(wanted: dict[str, Any]) -> str | datetime | None:
    return None if wanted["since"] is None else event_or_time(wanted["since"])


def _stock(stock: Stock) -> dict[str, Any]:
    return {
        "events": stock.event_count,
        "bytes": stock.byte_count,
        "is_pinned": stock.is_pinned,
        "is_whole": stock.is_whole,
    }


def _gaps(gaps: Gaps) -> dict[str, Any] | None:
    return asdict(gaps) if gaps else None


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "author": entry.author,
        "publisher": entry.publisher,
        "created": time_text(time_us(entry.created)),
        "parents": list(entry.parents),
        "height": entry.height,
        "payload": base64.b64encode(entry.payload).decode(),
        "dropped_before": entry.dropped_before,
    }


def _rules(wanted: dict[str, Any]) -> dict[str, Any]:
    names = ("ordered", "publishers", "requesters", "linking", "subtopics")
    return {name: wanted[name] for name in names}


def _descriptor(topic: descriptors.Topic) -> dict[str, Any]:
    rules = topic.rules
    publishers = None if rules.publishers is None else [*map(peer_text, rules.publishers)]
    return {
        "topic": cid_text(topic.cid),
        "name": topic.name,
        "author": peer_text(topic.author),
        "version": topic.version,
        "created": time_text(topic.created_us),
        "parent": None if topic.parent is None else cid_text(topic.parent),
        "subtopics": {name: cid_text(cid) for name, cid in topic.subtopics.items()},
        "ordered": rules.is_chained,
        "publishers": publishers,
        "takes_requests": rules.takes_requests,
        "requesters": [*map(peer_text, rules.requesters)],
        "linking": rules.linking.word,
    }
