"""The client of a running node."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

from smartpubsub.client.documents import ATTRIBUTES_MAX, event_info_in, subscription_in
from smartpubsub.client.groups import ClientGroups
from smartpubsub.client.subscriptions import ClientSubscription, reading_fields
from smartpubsub.client.topics import ClientTopics
from smartpubsub.client.transport import Start, Transport
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.handlers import Handling
from smartpubsub.node.api.interface import NodeInterface
from smartpubsub.node.api.listing import EventInfo, SubscriptionInfo
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.errors import NodeClosedError
from smartpubsub.node.tracking import EventFacts, Why
from smartpubsub.predicates import Predicate, as_predicate


class Client(NodeInterface):
    """A node in another process or thread, as an application uses it; `connect` makes one."""

    def __init__(self, serializer: Serializer) -> None:
        super().__init__(serializer)
        self._node_info: dict[str, Any] | None = None
        self._transport: Transport
        self._start_task: Start

    async def attach(self, transport: Transport, start: Start) -> None:
        """Begin to use a node."""
        self._transport = transport
        self._topics = ClientTopics(transport, self.serializer)
        self._groups = ClientGroups(transport, self.serializer, start)
        self._start_task = start
        self._node_info = await transport.ask("info", {})
        self._handlers.is_closing = False
        for handling in self._handlers.all:
            self._start(handling)

    async def detach(self) -> None:
        """Close all connections, which ends subscriptions that are not kept."""
        if self._node_info is not None:
            self._node_info, self._handlers.is_closing = None, True
            await self._transport.close()

    @property
    def _info(self) -> dict[str, Any]:
        if self._node_info is None:
            raise NodeClosedError("the client is not connected; use it inside its 'with' block")
        return self._node_info

    async def _ask(self, do: str, **fields: object) -> Any:
        assert self._info is not None
        return await self._transport.ask(do, fields)

    @property
    def peer_id(self) -> str:
        """The node's peer id in libp2p's notation."""
        id: str = self._info["peer_id"]
        return id

    @property
    def addresses(self) -> list[str]:
        """The node's addresses when the client connected, each with its peer id."""
        return [*self._info["addresses"]]

    async def peers(self) -> list[str]:
        """The peers that the node knows."""
        return [*await self._ask("peers")]

    async def metrics(self) -> bytes:
        """The node's metrics in Prometheus' text format."""
        text: str = await self._ask("metrics")
        return text.encode()

    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""
        await self._ask("unsubscribe", subscription=number)

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, also those without a reader."""
        return [subscription_in(each) for each in await self._ask("subscriptions")]

    async def event(self, id: str) -> EventInfo:
        """Report the state of an event that the node has published, or that waits for a reader."""
        return event_info_in(await self._ask("event", event=id))

    async def why(
        self,
        event: str,
        *,
        subscription: int | None = None,
        filter: Predicate | str | None = None,
        publisher_facts: EventFacts | None = None,
    ) -> Why:
        """Explain why an event has arrived at a subscription of the node, or has not."""
        fields: dict[str, object] = {"event": event}
        if subscription is not None:
            fields["subscription"] = subscription
        if filter is not None:
            fields["filter"] = str(self._read(filter))
        if publisher_facts is not None:
            fields["publisher_facts"] = publisher_facts.document()
        return Why.read(await self._ask("why", **fields))

    async def event_facts(self, id: str) -> EventFacts:
        """Report the facts that the node remembers of an event, for `why` on another node."""
        return EventFacts.read(await self._ask("event-facts", event=id))

    def _read(self, predicate: Predicate | str) -> Predicate:
        return as_predicate(predicate, ATTRIBUTES_MAX)

    def _subscription(self, predicate: Predicate, options: ReadOptions) -> ClientSubscription:
        assert self._info is not None
        fields = {"predicate": str(predicate), "keep": options.keep, **reading_fields(options)}
        return ClientSubscription(
            self._transport, "subscribe", fields, predicate, options, self.serializer
        )

    async def _publish(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None,
        replicas_min: int,
        id: str | None,
    ) -> Receipt:
        fields: dict[str, object] = {
            "event": str(event),
            "payload": base64.b64encode(payload).decode(),
            "wait": wait.value,
            "deadline_s": deadline_s,
            "replicas_min": replicas_min,
        }
        if key is not None:
            fields["key"] = key
        if id is not None:
            fields["again"] = id
        return Receipt.read(await self._ask("publish", **fields))

    def _start(self, handling: Handling) -> None:
        if self._node_info is not None:
            self._start_task(partial(self._handlers.run, handling))
