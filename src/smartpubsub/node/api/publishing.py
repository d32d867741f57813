"""Publishing from a live node, and waiting for acknowledgements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.node.api.calls import Call, Wait
from smartpubsub.node.api.event_records import (
    PREFIX,
    EventInfo,
    EventRecords,
    EventState,
    checked_key,
    digest_of,
)
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscribing import stores
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import (
    ChoiceError,
    LimitError,
    NotInTimeError,
    NotPromisedError,
    TooFewReplicasError,
)
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import (
    PAYLOAD_BYTES_MAX,
    EventId,
    Publication,
    event_id_from_text,
    too_long,
)
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused
from smartpubsub.seam import Effect

SendEvent: TypeAlias = Callable[[Publication, int, bool], list[Effect]]
"""Sends an event at a time; the flag says whether `Confirmed` is wanted."""

UNDER_WAY_MAX = 10_000
"""Events that are sent again if the core is restarted; beyond this, the oldest are not."""


class _UnderWay(NamedTuple):
    """An event that is not acknowledged yet, or not as its publisher wants it."""

    event: Publication
    send: SendEvent
    wants_all: bool


class Publishing:
    """The events that a node publishes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        config = engine.config
        self._records = EventRecords(config.key_count_max, config.key_age_s_max * SECOND)
        engine.loaders.append((PREFIX, self._load))
        engine.journals.append(self._records.journal)
        engine.on_deliver.append(self._on_deliver)
        engine.on_restart.append(self._send_again)
        self._under_way: OrderedDict[EventId, _UnderWay] = OrderedDict()
        """The core has these events in memory only."""

    def _load(self, stored: Sequence[tuple[bytes, bytes]]) -> None:
        self._records.load(self._engine.identity.peer, stored)

    async def publish(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None = None,
        replicas_min: int = 0,
    ) -> Receipt:
        """Publish an event, and wait for what `wait` says."""
        engine = self._engine
        self._check_replicas(replicas_min, wait)
        if wait is Wait.ALL and not engine.is_reliable:
            raise NotPromisedError(
                "this protocol does not tell when all subscribers have an event; use"
                " wait='rendezvous' or 'nothing'"
            )
        if key is not None:
            checked_key(key)

        def send(publication: Publication, now: int, wants_all: bool) -> list[Effect]:
            return engine.core.pubsub.publish(publication, now, wants_all=wants_all)

        receipt = await self.send(event, payload, wait, deadline_s, send, key=key)
        if replicas_min > (receipt.replicas or 0):
            raise TooFewReplicasError(receipt.id, receipt.replicas or 0, replicas_min)
        return receipt

    def _check_replicas(self, replicas_min: int, wait: Wait) -> None:
        """Raise an error for a number of replicas that no publication could have."""
        wanted = self._engine.config.backups + 1
        if not 0 <= replicas_min <= wanted:
            raise ChoiceError(
                f"replicas_min is between 0 and {wanted}, not {replicas_min}; run the node with"
                f" --backups {replicas_min - 1} for more"
            )
        if replicas_min and wait is Wait.NOTHING:
            raise ChoiceError("replicas_min needs wait='rendezvous' or 'all'")

    async def send(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        send: SendEvent,
        what: str = "",
        key: str | None = None,
        *,
        is_stored: bool = False,
    ) -> Receipt:
        """Have an event sent, and wait for what `wait` says.

        `what` is how errors call the event. An event with a key is sent once. Whether the core
        stores the event until it is acknowledged, `is_stored` says.
        """
        engine, host = self._engine, self._engine.host
        must_fit(payload, engine.config.message_bytes_max)
        call = Call()
        ids: list[EventId] = []

        def publish(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            wants_all = wait is Wait.ALL
            id, effects = self._sent(event, payload, now, send, key, wants_all=wants_all)
            ids.append(id)
            if is_stored:
                self._under_way.pop(id, None)
            record = self._records.get(str(id))
            assert record is not None
            if record.is_known_as_wanted(wants_all=wants_all):
                call.done.set()
            elif wait is not Wait.NOTHING:
                engine.calls.expect(wait.value, id, call)
            return None, effects

        def late() -> str:
            return self._late(what or f"the event {event}", ids, wait, deadline_s)

        try:
            with call.limited(what or f"the event {event}", deadline_s, late):
                await host.call(publish)
                if wait is not Wait.NOTHING:
                    await call.done.wait()
            record = self._records.get(str(ids[0]))
            held = () if record is None or wait is Wait.NOTHING else record.held
            return Receipt(ids[0], wait, held, engine.config.backups + 1)
        except NotInTimeError as error:
            error.event_id = str(ids[0]) if ids else None
            raise
        finally:
            for id in ids:
                engine.calls.forget(wait.value, id, call)

    def _sent(
        self,
        event: Predicate,
        payload: bytes,
        now: int,
        send: SendEvent,
        key: str | None,
        *,
        wants_all: bool,
    ) -> tuple[EventId, list[Effect]]:
        """Send an event, or the one that was published by the same key."""
        records = self._records
        digest = "" if key is None else digest_of(event, payload)
        found = None if key is None else records.with_key(key, digest, now)
        if found is None:
            publication = self._engine.core.new_event(event, payload, now)
            effects = self._send(publication, now, send, wants_all)
            changes = records.add(
                publication.id,
                publication.created_us,
                wants_all=wants_all,
                key=key,
                digest=digest,
            )
            # The record first: the effects may already tell of the acknowledgement.
            return publication.id, [*stores(changes), *effects]
        has_ended = found.state is EventState.REFUSED or not found.is_sent
        is_under_way = not has_ended and (found.wants_all or not wants_all)
        if is_under_way or found.is_known_as_wanted(wants_all=wants_all):
            return found.id, []
        # A restart or a refusal has ended the attempt. Send the same event again.
        found.is_sent, found.wants_all = True, wants_all
        if found.state is EventState.REFUSED:
            found.state, found.reason = EventState.PENDING, ""
        again = self._engine.signed_again(found.id, event, payload, found.created_us)
        effects = self._send(again, now, send, wants_all)
        return found.id, [*stores([found.change]), *effects]

    def _send(self, event: Publication, now: int, send: SendEvent, wants_all: bool) -> list[Effect]:
        self._under_way[event.id] = _UnderWay(event, send, wants_all)
        if len(self._under_way) > UNDER_WAY_MAX:
            self._under_way.popitem(last=False)
        return send(event, now, wants_all)

    def _send_again(self, now: int) -> list[Effect]:
        """Send the events that a core had which has been restarted."""
        return [
            effect
            for event, send, wants_all in list(self._under_way.values())
            for effect in send(event, now, wants_all)
        ]

    def _late(self, what: str, ids: list[EventId], wait: Wait, deadline_s: float) -> str:
        """Say what becomes of an event that was not acknowledged in time."""
        if not ids:
            return f"{what} was not published within {deadline_s:g} seconds; publish it again"
        id, record = ids[0], self._records.get(str(ids[0]))
        ask = f"ask with: smartpubsub event {id}"
        if wait is Wait.ALL and record is not None and record.is_acknowledged:
            return (
                f"{what} is published as {id} and acknowledged, but not all subscribers have"
                f" confirmed it within {deadline_s:g} seconds; the network goes on delivering it,"
                f" so do not publish it again; {ask}"
            )
        return (
            f"{what} has the id {id} and was not acknowledged within {deadline_s:g} seconds;"
            f" the node goes on trying while it runs; {ask}"
        )

    def about(self, id: str) -> EventInfo:
        """Tell what this node knows of an event."""
        event_id_from_text(id)
        waiting_in = tuple(self._engine.queues.holding(id))
        record = self._records.get(id)
        if record is None:
            return EventInfo(id, EventState.UNKNOWN, waiting_in=waiting_in)
        return EventInfo(id, record.state, record.held, record.reason, record.key, waiting_in)

    def _on_deliver(self, item: object) -> None:
        calls = self._engine.calls
        match item:
            case Published(id):
                if id in self._under_way and not self._under_way[id].wants_all:
                    del self._under_way[id]
                calls.acknowledge(Wait.RENDEZVOUS.value, id)
            case Confirmed(id):
                self._under_way.pop(id, None)
                calls.acknowledge(Wait.ALL.value, id)
            case Refused(id, reason):
                self._under_way.pop(id, None)
                for wait in Wait:
                    calls.refuse(wait.value, id, reason)


def as_payload(data: bytes | bytearray | memoryview) -> bytes:
    """Check that a payload is bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a payload is bytes, not {type(data).__name__}; encode text first")
    return bytes(data)


def must_fit(payload: bytes, message_bytes_max: int) -> None:
    """Check that a payload is not longer than all nodes accept."""
    bytes_max = min(PAYLOAD_BYTES_MAX, message_bytes_max // 2)
    if len(payload) > bytes_max:
        raise LimitError(f"a payload of {len(payload):,} bytes: {too_long(bytes_max)}")
