"""Requests about groups on the control socket."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from smartpubsub.node.api.node import Node
from smartpubsub.node.control.deciding import Deciding
from smartpubsub.node.control.documents import Say, SendEvents, event_document
from smartpubsub.node.control.requests import Request, RequestId


class GroupRequests:
    """A client's requests about groups."""

    def __init__(self, node: Node, say: Say, send_events: SendEvents) -> None:
        self._node = node
        self._say = say
        self._send_events = send_events
        self._deciding: dict[RequestId, Deciding] = {}

    @property
    def actions(self) -> dict[str, Callable[[Request], Awaitable[None]]]:
        """The handler of each request."""
        return {
            "group-create": self._create,
            "answer": self._answer,
            "group-list": self._list,
            "group-advertise": self._advertise,
            "group-invite": self._invite,
            "group-search": self._search,
            "group-join": self._join,
            "group-publish": self._publish,
            "group-leave": self._leave,
            "group-end": self._end,
        }

    async def _create(self, request: Request) -> None:
        wanted = request.fields
        group = self._node.group(wanted["group"])
        if not wanted["asks"]:
            await group.create(advertised=wanted["advertised"], private=wanted["private"])
            await self._say(request.id, ok=self._named(str(group.predicate)))
            return
        deciding = self._deciding[request.id] = Deciding()
        try:
            await group.create(
                advertised=wanted["advertised"], private=wanted["private"], accept=deciding.accept
            )
            await self._say(request.id, ok=self._named(str(group.predicate)))
            while True:
                await self._say(request.id, asked=await deciding.next_asked())
        finally:
            deciding.is_over = True
            del self._deciding[request.id]

    async def _answer(self, request: Request) -> None:
        wanted = request.fields
        if wanted["of"] in self._deciding:
            self._deciding[wanted["of"]].decide(wanted["number"], wanted["reply"])

    async def _list(self, request: Request) -> None:
        groups = [
            {
                "group": str(known.predicate),
                "owner": known.owner,
                "is_own": known.is_own,
                "is_private": known.is_private if known.is_own else None,
                "is_advertised": known.is_advertised if known.is_own else None,
                "members": known.member_count if known.is_own else None,
            }
            for known in await self._node.groups()
        ]
        await self._say(request.id, ok=groups)

    async def _advertise(self, request: Request) -> None:
        group = self._node.group(request.fields["group"])
        await group.advertise()
        await self._say(request.id, ok=self._named(str(group.predicate)))

    def _named(self, group: str) -> dict[str, Any]:
        addresses = self._node.addresses
        return {"group": group, "owner": addresses[0] if addresses else self._node.peer_id}

    async def _invite(self, request: Request) -> None:
        group = self._node.group(request.fields["group"])
        invitation = await group.invite(request.fields["peer"])
        text = base64.b64encode(invitation).decode()
        await self._say(request.id, ok={"invitation": text})

    async def _search(self, request: Request) -> None:
        found = await self._node.search_groups(request.fields["predicate"])
        groups = [{"group": str(group.predicate), "owner": group.owner} for group in found]
        await self._say(request.id, ok=groups)

    async def _join(self, request: Request) -> None:
        wanted = request.fields
        group = self._node.group(wanted["group"], wanted["owner"])
        membership = group.join(
            wanted["wanted"],
            invitation=wanted["invitation"],
            everywhere=wanted["everywhere"],
            overflow=wanted["overflow"],
            buffer_count_max=wanted["buffer_count_max"],
            deadline_s=wanted["deadline_s"],
        )
        async with membership as events:
            await self._say(request.id, ok={"subscription": events.number})
            await self._send_events(request, events, event_document)
        await self._say(request.id, end=True)

    async def _publish(self, request: Request) -> None:
        wanted = request.fields
        receipt = await self._node.group(wanted["group"]).publish(
            wanted["event"],
            wanted["payload"],
            wait=wanted["wait"],
            everywhere=wanted["everywhere"],
            key=wanted["key"],
            deadline_s=wanted["deadline_s"],
        )
        await self._say(request.id, ok=receipt.document())

    async def _leave(self, request: Request) -> None:
        group = self._node.group(request.fields["group"], request.fields["owner"])
        await self._say(request.id, ok={"left": await group.leave()})

    async def _end(self, request: Request) -> None:
        group = self._node.group(request.fields["group"])
        await group.end()
        await self._say(request.id, ok={"group": str(group.predicate)})
