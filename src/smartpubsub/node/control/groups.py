"""Requests about groups on the control socket."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import trio

from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.api.arrivals import Subscription
from smartpubsub.node.api.node import Node
from smartpubsub.node.control.requests import Request

Say = Callable[..., Awaitable[None]]
"""Sends a line to the client; the first argument is the request's id."""
SendEvents = Callable[[Request, Subscription, int | None], Awaitable[None]]


class GroupRequests:
    """A client's requests about groups."""

    def __init__(self, node: Node, say: Say, send_events: SendEvents) -> None:
        self._node = node
        self._say = say
        self._send_events = send_events

    @property
    def actions(self) -> dict[str, Callable[[Request], Awaitable[None]]]:
        """The handler of each request."""
        return {
            "group-create": self._create,
            "group-list": self._list,
            "group-advertise": self._advertise,
            "group-invite": self._invite,
            "group-search": self._search,
            "group-join": self._join,
            "group-publish": self._publish,
            "group-leave": self._leave,
        }

    async def _create(self, request: Request) -> None:
        wanted = request.fields
        group = self._node.group(wanted["group"])
        await group.create(advertised=wanted["advertised"], private=wanted["private"])
        await self._say(request.id, ok=self._named(str(group.predicate)))

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
            for known in self._node.groups()
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
        invitation = self._node.group(request.fields["group"]).invite(request.fields["peer"])
        text = base64.b64encode(invitation).decode()
        await self._say(request.id, ok={"invitation": text})

    async def _search(self, request: Request) -> None:
        found = await self._node.search_groups(request.fields["predicate"])
        groups = [{"group": str(group.predicate), "owner": group.owner} for group in found]
        await self._say(request.id, ok=groups)

    async def _join(self, request: Request) -> None:
        wanted = request.fields
        group = self._node.group(wanted["group"], wanted["owner"])
        interest = wanted["wanted"] or group.predicate
        beside: Subscription | None = None
        if wanted["subscribe"]:
            beside = self._node.subscribe(interest, overflow=wanted["overflow"])
        membership = group.join(
            interest,
            invitation=wanted["invitation"],
            beside=beside,
            overflow=wanted["overflow"],
        )
        async with AsyncExitStack() as stack:
            await _enter_at_once(stack, [membership] if beside is None else [membership, beside])
            await self._say(request.id, ok={"subscription": membership.number})
            await self._send_events(request, beside or membership, wanted["limit"])
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


async def _enter_at_once(stack: AsyncExitStack, subscriptions: Sequence[Subscription]) -> None:
    """Begin several subscriptions at once; all or none."""
    try:
        async with trio.open_nursery() as nursery:
            for subscription in subscriptions:
                nursery.start_soon(stack.enter_async_context, subscription)
    except BaseExceptionGroup as group:
        problems, others = group.split(SmartPubSubError)
        if problems is None or others is not None:
            raise
        while isinstance(problem := problems.exceptions[0], BaseExceptionGroup):
            problems = problem
        raise problem from None
