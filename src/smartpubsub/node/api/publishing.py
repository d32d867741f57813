"""Publishing from a live node, and waiting for what is wanted to be known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from smartpubsub.node.api.calls import Call, Wait
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import LimitError, NotPromisedError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX, EventId, too_long
from smartpubsub.protocols.pubsub import Confirmed, Held, Published, Refused
from smartpubsub.seam import Effect

SendEvent: TypeAlias = Callable[[int, bool], tuple[EventId, list[Effect]]]
"""Sends an event at a time, whether or not it is wanted to know when all have it."""


class Publishing:
    """The events that a node publishes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: dict[EventId, tuple[Held, ...] | None] = {}
        """Who keeps the events that are waited for; None for those that are not published yet."""
        engine.on_deliver.append(self._on_deliver)

    async def publish(
        self, event: Predicate, payload: bytes, wait: Wait, deadline_s: float
    ) -> Receipt:
        """Publish an event, and wait until as much is known of it as is wanted."""
        engine = self._engine
        if wait is Wait.ALL and not engine.is_reliable:
            raise NotPromisedError(
                "this protocol does not tell when everybody has an event; wait for less"
            )

        def send(now: int, wants_all: bool) -> tuple[EventId, list[Effect]]:
            return engine.core.publish(event, payload, now, wants_all=wants_all)

        return await self.send(event, payload, wait, deadline_s, send)

    async def send(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        send: SendEvent,
        what: str = "",
    ) -> Receipt:
        """Have an event sent, and wait until as much is known of it as is wanted.

        What errors say of it can be given, if the event has no name of its own.
        """
        engine, host = self._engine, self._engine.host
        must_fit(payload, engine.config.message_bytes_max)
        call = Call()
        ids: list[EventId] = []

        def publish(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:  # The node was held up until it was too late.
                return None, []
            id, effects = send(now, wait is Wait.ALL)
            ids.append(id)
            if wait is not Wait.NOTHING:
                engine.calls.expect(wait.value, id, call)
                self._held[id] = None
            return None, effects

        def late() -> str:
            if wait is not Wait.ALL or not ids or self._held[ids[0]] is None:
                return ""
            return (
                f"the event {event} is published as {ids[0]} and kept for those who are away, but"
                f" not all who want it have confirmed it within {deadline_s:g} seconds; do not"
                " publish it again"
            )

        try:
            with call.limited(what or f"the event {event}", deadline_s, late):
                await host.call(publish)
                if wait is not Wait.NOTHING:
                    await call.done.wait()
            return Receipt(ids[0], wait, self._held.get(ids[0]) or ())
        finally:
            for id in ids:
                engine.calls.forget(wait.value, id)
                self._held.pop(id, None)

    def _on_deliver(self, item: object) -> None:
        calls = self._engine.calls
        match item:
            case Published(id, held):
                if id in self._held:
                    self._held[id] = held
                calls.acknowledge(Wait.RENDEZVOUS.value, id)
            case Confirmed(id):
                calls.acknowledge(Wait.ALL.value, id)
            case Refused(id, reason):
                for wait in Wait:
                    calls.refuse(wait.value, id, reason)


def as_payload(data: bytes | bytearray | memoryview) -> bytes:
    """What an event is to carry, as bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a payload is bytes, not {type(data).__name__}; encode text first")
    return bytes(data)


def must_fit(payload: bytes, message_bytes_max: int) -> None:
    """Complain if a payload is longer than what everybody takes."""
    bytes_max = min(PAYLOAD_BYTES_MAX, message_bytes_max // 2)
    if len(payload) > bytes_max:
        raise LimitError(f"a payload of {len(payload):,} bytes: {too_long(bytes_max)}")
