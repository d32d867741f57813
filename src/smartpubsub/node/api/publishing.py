"""Publishing from a live node, and waiting for acknowledgements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

import trio

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.api.calls import Call
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.event_records import (
    PREFIX,
    Content,
    Destination,
    EventRecord,
    EventRecords,
    checked_key,
)
from smartpubsub.node.api.listing import EventInfo, EventState
from smartpubsub.node.api.receipts import Receipt, replicas_of
from smartpubsub.node.api.signed_together import SignedTogether, WaitingContent
from smartpubsub.node.api.subscribing import stores
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import (
    ChoiceError,
    EventRefusedError,
    LimitError,
    NodeClosedError,
    NotInTimeError,
    NotPromisedError,
    PublishError,
    PublishNotInTimeError,
    PublishRefusedError,
    TooFewReplicasError,
)
from smartpubsub.node.transport.host import HostStoppedError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.event_messages import remember_event
from smartpubsub.protocols.publication import (
    PAYLOAD_BYTES_MAX,
    EventId,
    Publication,
    event_id_from_text,
    too_long,
)
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused
from smartpubsub.seam import Effect

SendEvent: TypeAlias = Callable[[Publication, Destination, int, bool], list[Effect]]
"""Hands an event to a protocol at a time; the flag requests a `Confirmed`."""
OtherNames: TypeAlias = Callable[[Content], Iterable[Content]]
"""The same event at the other names of its destination."""

RETRY_US_MAX = 30 * MINUTE
"""A node resends younger events of an earlier run: other nodes still recognise copies of them."""
RETRIES_AT_ONCE = 100
STORE_S_MAX = 5.0
"""How long a caller whose event is late waits for the event to be stored."""
UNDER_WAY_MAX = 10_000
"""Events that the node resends if the core is restarted; beyond this, it forgets the oldest."""


class _UnderWay(NamedTuple):
    """An event that is not acknowledged, or not confirmed although the publisher wants that."""

    event: Publication
    destination: Destination
    wants_all: bool


class Publishing:
    """The events that a node publishes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        config = engine.config
        self._records = EventRecords(config.key_count_max, config.key_age_s_max * SECOND)
        self.senders: dict[str, SendEvent] = {"": self._send_to_all}
        """The function that sends an event, by the kind of its destination."""
        self.other_names: dict[str, OtherNames] = {}
        """The names that share the keys of a destination, by its kind."""
        self.self_signing: dict[str, None] = {}
        """The kinds of destinations whose protocol signs events itself."""
        self.sharing: dict[str, None] = {"": None} if engine.spec.shares_signatures else {}
        """The kinds of destinations whose events may share a signature."""
        self._together = SignedTogether(lambda: engine.core)
        engine.loaders.append((PREFIX, self._load))
        for kind in (Published, Confirmed, Refused):
            engine.journals[kind].append(self._records.journal)
        engine.on_deliver[Published].append(self._on_published)
        engine.on_deliver[Confirmed].append(self._on_confirmed)
        engine.on_deliver[Refused].append(self._on_refused)
        engine.on_restart.append(self._restore)
        self._under_way: OrderedDict[EventId, _UnderWay] = OrderedDict()
        """The core may have these events in memory only."""

    def _load(self, stored: Sequence[tuple[bytes, bytes]]) -> None:
        self._records.load(self._engine.identity.peer, stored)

    def _send_to_all(
        self, publication: Publication, _: Destination, now: int, wants_all: bool
    ) -> list[Effect]:
        return self._engine.core.pubsub.publish(publication, now, wants_all=wants_all)

    async def retry(self) -> None:
        """Send the stored events of earlier runs that were not acknowledged, a few at a time."""
        unsent = self._records.unsent()
        with suppress(HostStoppedError, NodeClosedError):
            while unsent:
                some, unsent = unsent[:RETRIES_AT_ONCE], unsent[RETRIES_AT_ONCE:]
                calls: list[Call] = []
                await self._engine.host.do(partial(self._retried, some, calls))
                for call in calls:
                    await call.done.wait()

    def _retried(self, records: list[EventRecord], calls: list[Call], now: int) -> list[Effect]:
        """Send events again, unless a caller was faster or they are too old."""
        effects: list[Effect] = []
        for record in records:
            is_old = record.created_us <= now - RETRY_US_MAX
            if not record.is_sent and record.content is not None and not is_old:
                calls.append(Call())
                self._engine.calls.expect(Wait.RENDEZVOUS.value, record.id, calls[-1])
                effects += self._sent_again(record, record.content, now)
        return effects

    async def publish(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None = None,
        replicas_min: int = 0,
        id: str | None = None,
    ) -> Receipt:
        """Publish an event, and wait for what `wait` says."""
        self._check_replicas(replicas_min, wait)
        if wait is Wait.ALL and not self._engine.is_reliable:
            raise NotPromisedError(
                "this protocol does not report when all subscribers have an event; use"
                " wait='rendezvous' or 'nothing'"
            )
        receipt = await self.send(
            Content(event, payload), wait, deadline_s, key, id=id, replicas_min=replicas_min
        )
        if replicas_min and replicas_min > (receipt.replicas or 0):
            state = self.about(receipt.id).state.value
            raise TooFewReplicasError(receipt.id, receipt.replicas or 0, replicas_min, state)
        return receipt

    def _check_replicas(self, replicas_min: int, wait: Wait) -> None:
        """Raise an error for a number of replicas that no publication could have."""
        wanted = self._engine.config.backups + 1
        if not 0 <= replicas_min <= wanted:
            raise ChoiceError(
                f"replicas_min is between 0 and {wanted}, not {replicas_min}; run the node with"
                f" --backups {replicas_min - 1} for more"
            )
        if replicas_min and self._engine.spec.replay is None:
            raise NotPromisedError(
                f"{self._engine.spec.name} keeps no replicas of events; leave replicas_min out"
            )
        if replicas_min and wait is Wait.NOTHING:
            raise ChoiceError("replicas_min needs wait='rendezvous' or 'all'")

    async def send(
        self,
        content: Content,
        wait: Wait,
        deadline_s: float,
        key: str | None = None,
        what: str = "",
        id: str | None = None,
        replicas_min: int = 0,
    ) -> Receipt:
        """Send an event, and wait for what `wait` says.

        An event with a key is sent once. `id` is that of an event which is published already; if
        fewer than `replicas_min` nodes hold it, it is sent again. `what` describes the event in
        errors.
        """
        engine, host = self._engine, self._engine.host
        must_fit(content.payload, engine.config.message_bytes_max)
        _check_name(key, id)
        what = what or f"the event {content.predicate}"
        wants_all = wait is Wait.ALL
        call = Call()
        ids: list[EventId] = []
        records: list[EventRecord] = []
        is_new = key is None and id is None
        shares = is_new and content.destination.kind in self.sharing
        waiting = self._together.add(content) if shares else None

        def publish(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            sent, effects = self._sent(
                content,
                now,
                key,
                id,
                wants_all=wants_all,
                waiting=waiting,
                replicas_min=replicas_min,
            )
            ids.append(sent)
            record = self._records.get(str(sent))
            assert record is not None
            records.append(record)
            if record.is_known_as_wanted(wants_all=wants_all) and not effects:
                call.done.set()
            elif wait is not Wait.NOTHING:
                engine.calls.expect(wait.value, sent, call)
            return None, effects

        # The key is stored before the event is sent, so that no crash makes it two events.
        commits_first = key is not None
        try:
            if wait is Wait.NOTHING:
                with call.limited(what, deadline_s):
                    await host.call(publish, commits_first=commits_first)
            else:
                engine.calls.end_after(call, deadline_s)
                await host.call(publish, commits_first=commits_first, acknowledged=call.done)
                call.check(what, deadline_s)
            held = () if wait is Wait.NOTHING else records[0].held
            return Receipt(ids[0], wait, held, engine.config.backups + 1)
        except NotInTimeError:
            raise await self._late(what, ids, content, wait, deadline_s) from None
        except EventRefusedError as error:
            raise PublishRefusedError(str(error), str(ids[0]), EventState.REFUSED.value) from None
        finally:
            call.is_over = True
            self._together.forget(waiting)
            for each in ids:
                engine.calls.forget(wait.value, each, call)

    async def send_all(
        self, events: Sequence[tuple[Content, str]], deadline_s: float
    ) -> list[EventId]:
        """Send events with keys in this order, and wait until all are acknowledged."""
        call = Call()
        ids: list[EventId] = []
        calls: dict[EventId, Call] = {}
        by_key: dict[str, Content] = {}
        for content, key in events:
            must_fit(content.payload, self._engine.config.message_bytes_max)
            if by_key.setdefault(checked_key(key), content) != content:
                raise ChoiceError(f"two different events of the batch have the key {key!r}")

        def publish(now: int) -> tuple[list[EventId], list[Effect]]:
            return ([], []) if call.is_over else self._all_sent(events, calls, now)

        try:
            with call.limited(f"a batch of {len(events)} events", deadline_s):
                ids = await self._engine.host.call(publish, commits_first=True)
                for each in calls.values():
                    await each.done.wait()
        except NotInTimeError as error:
            raise PublishNotInTimeError(
                f"{error}; the node goes on trying; publish it again by the same keys"
            ) from None
        finally:
            for id, each in calls.items():
                self._engine.calls.forget(Wait.RENDEZVOUS.value, id, each)
        for id, each in calls.items():
            if each.refusal is not None:
                raise PublishRefusedError(each.refusal, str(id), EventState.REFUSED.value)
        return ids

    def _all_sent(
        self, events: Sequence[tuple[Content, str]], calls: dict[EventId, Call], now: int
    ) -> tuple[list[EventId], list[Effect]]:
        for content, key in events:  # Checks all keys before it sends any event.
            self._records.with_key(key, self._as_known(content, key), now)
        ids: list[EventId] = []
        effects: list[Effect] = []
        for content, key in events:
            id, more = self._sent(content, now, key, wants_all=False)
            ids.append(id)
            effects += more
            if id in calls:
                continue
            call = calls[id] = Call()
            record = self._records.get(str(id))
            if record is not None and record.is_acknowledged:
                call.done.set()
            else:
                self._engine.calls.expect(Wait.RENDEZVOUS.value, id, call)
        return ids, effects

    def _sent(
        self,
        content: Content,
        now: int,
        key: str | None,
        known: str | None = None,
        *,
        wants_all: bool,
        waiting: WaitingContent | None = None,
        replicas_min: int = 0,
    ) -> tuple[EventId, list[Effect]]:
        """Send an event, or the one that was published by the same key or has a known id."""
        records, core = self._records, self._engine.core
        if key is not None:
            content = self._as_known(content, key)
        found = None if key is None else records.with_key(key, content, now)
        if known is not None:
            found = records.with_id(known, content)
        if found is None:
            is_signed = content.destination.kind not in self.self_signing
            if waiting is not None:
                publication = self._together.event_of(waiting, now)
            else:
                publication = core.new_event(
                    content.predicate, content.payload, now, is_signed=is_signed
                )
            id, created_us = publication.id, publication.created_us
            if is_signed:
                remember_event(publication)
            self._engine.tracking.on_publish(publication)
            effects = self._send(publication, content.destination, now, wants_all)
            changes = records.add(id, created_us, content, key, wants_all=wants_all)
            # The record first: the effects may already contain the acknowledgement.
            return id, [*stores(changes), *effects]
        has_ended = found.state is EventState.REFUSED or not found.is_sent
        is_under_way = not has_ended and (found.wants_all or not wants_all)
        is_known = found.is_known_as_wanted(wants_all=wants_all)
        # Nodes that have come since can hold it too.
        is_short = found.is_acknowledged and replicas_of(found.held) < replicas_min
        is_young = found.created_us > now - RETRY_US_MAX
        if (is_under_way or is_known) and not (is_short and is_young):
            return found.id, []
        # A restart or a refusal has ended the attempt, or the caller wants more.
        found.wants_all = wants_all
        return found.id, self._sent_again(found, content, now)

    def _as_known(self, content: Content, key: str) -> Content:
        """The event at the name of its destination that was used with a key before, if any."""
        others = self.other_names.get(content.destination.kind)
        if others is None or self._records.has_key(key, content.destination):
            return content
        known = (each for each in others(content) if self._records.has_key(key, each.destination))
        return next(known, content)

    def _sent_again(self, record: EventRecord, content: Content, now: int) -> list[Effect]:
        """Send the same event again."""
        record.is_sent = True
        if not record.is_acknowledged:
            record.state, record.reason, record.content = EventState.PENDING, "", content
        predicate, payload, destination = content
        again = self._engine.signed_again(record.id, predicate, payload, record.created_us)
        effects = self._send(again, destination, now, record.wants_all)
        return [*stores([record.change]), *effects]

    def _send(
        self, event: Publication, destination: Destination, now: int, wants_all: bool
    ) -> list[Effect]:
        self._under_way[event.id] = _UnderWay(event, destination, wants_all)
        if len(self._under_way) > UNDER_WAY_MAX:
            self._under_way.popitem(last=False)
        return self.senders[destination.kind](event, destination, now, wants_all)

    def _restore(self, now: int) -> list[Effect]:
        """Resend the events that a core had before it was restarted."""
        return [
            effect
            for event, destination, wants_all in list(self._under_way.values())
            for effect in self._send(event, destination, now, wants_all)
        ]

    async def _late(
        self, what: str, ids: list[EventId], content: Content, wait: Wait, deadline_s: float
    ) -> PublishError:
        """Store an event that was not acknowledged in time; return the error for the caller."""
        if not ids:
            return PublishNotInTimeError(
                f"{what} was not published within {deadline_s:g} seconds; publish it again"
            )
        id = ids[0]
        with trio.move_on_after(STORE_S_MAX) as limit, suppress(HostStoppedError):
            limit.shield = True
            await self._engine.host.do(lambda now: stores(self._records.store(id, content, now)))
        record = self._records.get(str(id))
        state = EventState.UNKNOWN if record is None else record.state
        ask = f"ask with: smartpubsub event {id}"
        if wait is Wait.ALL and record is not None and record.is_acknowledged:
            reason = (
                f"{what} is published as {id} and acknowledged, but not all subscribers have"
                f" confirmed it within {deadline_s:g} seconds; the network goes on delivering it,"
                f" so do not publish it again; {ask}"
            )
        else:
            repeat = "" if content.destination.kind else " (to wait again, publish it with this id)"
            reason = (
                f"{what} has the id {id} and was not acknowledged within {deadline_s:g} seconds;"
                f" the node goes on trying, also after a restart{repeat}; {ask}"
            )
        return PublishNotInTimeError(reason, str(id), state.value)

    def about(self, id: str) -> EventInfo:
        """Report the state of an event."""
        event_id_from_text(id)
        waiting_in = tuple(self._engine.queues.holding(id))
        record = self._records.get(id)
        if record is None:
            return EventInfo(id, EventState.UNKNOWN, waiting_in=waiting_in)
        reason = record.reason
        if record.state is EventState.PENDING and not record.is_sent:
            reason = "it is too old to be sent again by itself; publish it again by its key or id"
        return EventInfo(id, record.state, record.held, reason, record.key, waiting_in)

    def _on_published(self, item: Published) -> None:
        id = item.id
        if id in self._under_way and not self._under_way[id].wants_all:
            del self._under_way[id]
        self._engine.calls.acknowledge(Wait.RENDEZVOUS.value, id)

    def _on_confirmed(self, item: Confirmed) -> None:
        self._under_way.pop(item.id, None)
        self._engine.calls.acknowledge(Wait.ALL.value, item.id)

    def _on_refused(self, item: Refused) -> None:
        self._under_way.pop(item.id, None)
        for wait in Wait:
            self._engine.calls.refuse(wait.value, item.id, item.reason)


def _check_name(key: str | None, id: str | None) -> None:
    if key is not None and id is not None:
        raise ChoiceError("key and id both name the event; give one of them")
    if key is not None:
        checked_key(key)
    if id is not None:
        event_id_from_text(id)


def must_fit(payload: bytes, message_bytes_max: int) -> None:
    """Check that a payload is not longer than all nodes accept."""
    bytes_max = min(PAYLOAD_BYTES_MAX, message_bytes_max // 2)
    if len(payload) > bytes_max:
        raise LimitError(f"a payload of {len(payload):,} bytes: {too_long(bytes_max)}")
