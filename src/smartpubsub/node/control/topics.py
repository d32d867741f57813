"""Requests about topics on the control socket."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from smartpubsub.node.api.events import Entry
from smartpubsub.node.api.listing import Gaps, Stock
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.past import time_us
from smartpubsub.node.api.topic import Topic
from smartpubsub.node.api.topic_ranges import RangeEnd
from smartpubsub.node.control.documents import Say, SayPage, SendEvents
from smartpubsub.node.control.pages import joined
from smartpubsub.node.control.requests import Request
from smartpubsub.node.errors import NodeError, NoTopicError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.transport.contacts import contact_of
from smartpubsub.protocols.blocks import CidError, cid_text, time_text
from smartpubsub.protocols.pulsarcast import topics as descriptors


class TopicRequests:
    """A client's requests about topics."""

    def __init__(self, node: Node, say: Say, say_page: SayPage, send_events: SendEvents) -> None:
        self._node = node
        self._say = say
        self._say_page = say_page
        self._send_events = send_events

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
            "topic-heads": self._heads,
            "topic-range": self._range,
            "topic-export": self._export,
            "topic-import": self._import,
        }

    async def _topic(self, request: Request) -> Topic:
        return await topic_named(self._node, request.fields["topic"])

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
                **({"block": _base64(known.topic.block)} if request.fields["proof"] else {}),
                "is_own": known.is_own,
                "subscriptions": known.subscription_count,
                "kept": {"for_others": known.is_kept_for_others, **_stock(known.stock)},
            }
            for known in await self._node.topics()
        ]
        await self._say(request.id, ok=topics)

    async def _update(self, request: Request) -> None:
        topic = await self._topic(request)
        await topic.update(**_rules(request.fields))
        await self._say(request.id, ok=await self._described(topic))

    async def _show(self, request: Request) -> None:
        topic, with_proof = await self._topic(request), request.fields["proof"]
        await self._say(request.id, ok=await self._described(topic, with_proof))

    async def _described(self, topic: Topic, with_proof: bool = False) -> dict[str, Any]:
        versions = await topic.versions()
        stock = await topic.stock()
        newest, own = versions[0], contact_of(self._node.peer_id).peer
        return {
            **_descriptor(newest),
            "may_publish": newest.rules.may_publish(own),
            "may_request": newest.rules.may_request(own),
            "versions": [
                {
                    "topic": cid_text(v.cid),
                    "version": v.version,
                    "created": time_text(v.created_us),
                    **({"block": _base64(v.block)} if with_proof else {}),
                }
                for v in versions
            ],
            "kept": _stock(stock),
        }

    async def _pin(self, request: Request) -> None:
        topic = await self._topic(request)
        if request.fields["pinned"]:
            await topic.pin()
        else:
            await topic.unpin()
        await self._say(request.id, ok={"topic": topic.id, "is_pinned": request.fields["pinned"]})

    async def _publish(self, request: Request) -> None:
        wanted = request.fields
        topic = await self._topic(request)
        receipt = await topic.publish(
            wanted["payload"],
            parents=wanted["parents"],
            wait=wanted["wait"],
            key=wanted["key"],
            deadline_s=wanted["deadline_s"],
        )
        said = {
            "id": receipt.content_id,
            "event": receipt.id,
            "topic": topic.id,
            "receipt": receipt.document(),
        }
        await self._say(request.id, ok=said)

    async def _subscribe(self, request: Request) -> None:
        wanted = request.fields
        topic, since, last = await self._topic(request), wanted["since"], wanted["last"]
        subscription = (
            topic.keep(since=since, last=last, acknowledges=False)
            if wanted["keep"]
            else topic.subscribe(
                since=since,
                last=last,
                overflow=wanted["overflow"],
                buffer_count_max=wanted["buffer_count_max"],
            )
        )
        async with subscription:
            gaps = _gaps(subscription.gaps)
            await self._say(request.id, ok={"subscription": subscription.number, "gaps": gaps})
            await self._send_events(request, subscription, _entry)
        await self._say(request.id, end=True)

    async def _history(self, request: Request) -> None:
        wanted = request.fields
        topic = await self._topic(request)
        entries = await topic.history(since=wanted["since"], last=wanted["last"])
        await self._say(request.id, ok={"subscription": 0, "gaps": _gaps(entries.gaps)})
        for entry in entries:
            await self._say(request.id, event=_entry(entry, wanted["proof"]), dropped=0)
        await self._say(request.id, end=True)

    async def _heads(self, request: Request) -> None:
        wanted, topic = request.fields, await self._topic(request)
        end = await self._node.batches.topic_ranges.end(
            topic.cid,
            wanted["after"],
            wanted["until"],
            count_max=wanted["limit"],
            before_us=wanted["before_us"],
        )
        said = heads_document(topic, end)
        if wanted["proof"]:
            blocks = await self._node.batches.topic_ranges.proof(topic.cid)
            said["proof"] = _base64(joined(blocks))
        await self._say(request.id, ok=said)

    async def _range(self, request: Request) -> None:
        wanted, topic = request.fields, await self._topic(request)
        page = await self._node.batches.topic_ranges.page(
            topic.cid, wanted["after"], wanted["until"], wanted["first"], wanted["limit"]
        )
        about = {"events": page.event_count, "lost": [*map(cid_text, page.lost)]}
        await self._say_page(request, about, page.blocks)

    async def _export(self, request: Request) -> None:
        topic = await self._topic(request)
        found = await topic.blocks()
        roots = [cid_text(root) for root in found.roots]
        said = {"topic": topic.id, "roots": roots, "gaps": _gaps(found.gaps)}
        await self._say(request.id, ok=said)
        for block in found.blocks:
            await self._say(request.id, block=_base64(block))
        await self._say(request.id, end=True)

    async def _import(self, request: Request) -> None:
        good = await self._node.import_blocks(request.fields["blocks"])
        await self._say(request.id, ok={"blocks": good})


async def topic_named(node: Node, text: str) -> Topic:
    """The topic with a content id, or with a name that the node knows."""
    try:
        return node.topic(text)
    except CidError:
        known = await node.topics()
    named = [each for each in known if each.topic.name == text]
    named = [each for each in named if each.is_own] or named
    if len(named) == 1:
        return node.topic(cid_text(named[0].topic.cid))
    if named:
        ids = ", ".join(cid_text(each.topic.cid) for each in named)
        raise NodeError(f"several topics have the name {text!r}; name one by its id: {ids}")
    names = ", ".join(sorted({repr(each.topic.name) for each in known})) or "none"
    raise NoTopicError(
        f"this node knows no topic {text!r}; name it by its content id, which begins with"
        f" bafyrei; the names that the node knows: {names}"
    )


def heads_document(topic: Topic, end: RangeEnd) -> dict[str, Any]:
    """Convert the end of a range."""
    heads = {cid_text(cid): height for cid, height in end.heads.items()}
    return {
        "topic": topic.id,
        "room": cid_text(end.topic_id),
        "heads": heads,
        "events": end.event_count,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _stock(stock: Stock) -> dict[str, Any]:
    return {
        "events": stock.event_count,
        "bytes": stock.byte_count,
        "is_pinned": stock.is_pinned,
        "is_whole": stock.is_whole,
    }


def _gaps(gaps: Gaps) -> dict[str, Any] | None:
    return asdict(gaps) if gaps else None


def _entry(entry: Entry, with_proof: bool) -> dict[str, Any]:
    written = {
        "id": entry.id,
        "author": entry.author,
        "publisher": entry.publisher,
        "created": time_text(time_us(entry.created)),
        "parents": list(entry.parents),
        "height": entry.height,
        "payload": _base64(entry.payload),
        "hops": entry.hops,
        "dropped_before": entry.dropped_before,
    }
    if with_proof:
        written |= {"event": str(entry.predicate), "block": _base64(entry.block)}
    return written


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
