"""The groups of a running node."""

from __future__ import annotations

import base64
import logging
from functools import partial

from smartpubsub.client.documents import found_group_in, join_request_in, known_group_in
from smartpubsub.client.subscriptions import ClientSubscription, reading_fields
from smartpubsub.client.transport import EventLines, Start, Transport
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.listing import Accept, FoundGroup, KnownGroup, decided
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.errors import ControlError
from smartpubsub.predicates import Predicate

_log = logging.getLogger(__name__)


class ClientGroups:
    """Implements `GroupsPort` by requests."""

    def __init__(self, transport: Transport, serializer: Serializer, start: Start) -> None:
        self._transport = transport
        self._serializer = serializer
        self._start = start

    async def create(
        self, predicate: Predicate, *, advertised: bool, private: bool, accept: Accept | None
    ) -> None:
        """Create a group, and wait until it is open."""
        fields = {"group": str(predicate), "advertised": advertised, "private": private}
        if accept is None:
            await self._transport.ask("group-create", fields)
        else:
            lines = await self._transport.open("group-create", {**fields, "asks": True})
            self._start(partial(_decide, lines, accept))

    async def advertise(self, predicate: Predicate) -> None:
        """Advertise a group of the node."""
        await self._transport.ask("group-advertise", {"group": str(predicate)})

    async def invite(self, predicate: Predicate, peer: str) -> bytes:
        """Make an invitation for a peer to a private group of the node."""
        fields = {"group": str(predicate), "peer": peer}
        made = await self._transport.ask("group-invite", fields)
        return base64.b64decode(made["invitation"])

    async def publish(
        self,
        group: Predicate,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None,
        *,
        everywhere: bool,
    ) -> Receipt:
        """Publish in a group of the node, and outside of it too with `everywhere`."""
        fields = {
            "group": str(group),
            "event": str(event),
            "payload": base64.b64encode(payload).decode(),
            "wait": wait.value,
            "deadline_s": deadline_s,
            "everywhere": everywhere,
        } | ({} if key is None else {"key": key})
        return Receipt.read(await self._transport.ask("group-publish", fields))

    def membership(
        self,
        group: Predicate,
        owner: str,
        wanted: Predicate,
        options: ReadOptions,
        *,
        invitation: bytes,
        everywhere: bool,
    ) -> ClientSubscription:
        """Make a membership in a group."""
        fields = {
            "group": str(group),
            "owner": owner,
            "wanted": str(wanted),
            "invitation": base64.b64encode(invitation).decode(),
            "everywhere": everywhere,
            "deadline_s": options.deadline_s,
            **reading_fields(options),
        }
        return ClientSubscription(
            self._transport, "group-join", fields, wanted, options, self._serializer
        )

    async def close(self, predicate: Predicate) -> None:
        """End a group of the node."""
        await self._transport.ask("group-end", {"group": str(predicate)})

    async def leave(self, group: Predicate, owner: str | None) -> int:
        """End all memberships in a group; return how many there were."""
        fields = {"group": str(group)} | ({} if owner is None else {"owner": owner})
        left: int = (await self._transport.ask("group-leave", fields))["left"]
        return left

    async def known(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of, each once."""
        return [known_group_in(group) for group in await self._transport.ask("group-list", {})]

    async def search(self, predicate: Predicate) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        found = await self._transport.ask("group-search", {"predicate": str(predicate)})
        return [found_group_in(group) for group in found]


async def _decide(lines: EventLines, accept: Accept) -> None:
    """Decide about each request to join a group, until the client is closed."""
    try:
        while (line := await lines.next()) is not None:
            asked = line["asked"]
            reply = decided(accept, join_request_in(asked))
            await lines.send_about("answer", {"number": asked["number"], "reply": reply})
    except ControlError as error:
        _log.warning("the node refuses new members from now on", exc_info=error)
