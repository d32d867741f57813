"""Runs one core on libp2p: passes events to it in order, and carries out its effects."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Protocol, TypeAlias, TypeVar

import trio
from trio_typing import TaskStatus

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, body_bytes
from smartpubsub.node.identity import Identity, peer_text
from smartpubsub.node.storage.store import StorageLimitError
from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.backoff import Backoff
from smartpubsub.node.transport.bans import Bans
from smartpubsub.node.transport.boot_clock import clock_set
from smartpubsub.node.transport.connections import Connections
from smartpubsub.node.transport.containment import Containment
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.dialer import Dialer
from smartpubsub.node.transport.hearsay import Hearsay
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.inbound import Inbound
from smartpubsub.node.transport.inbox import OWN, Inbox, Several
from smartpubsub.node.transport.lanes import Lanes
from smartpubsub.node.transport.processor_clock import ProcessorClock
from smartpubsub.node.transport.shares import Shares
from smartpubsub.node.transport.streams import UnreachableError
from smartpubsub.node.transport.swarm import MakeTcp
from smartpubsub.node.transport.timers import MICROSECONDS, Clock, Timers
from smartpubsub.node.transport.turns import Turns
from smartpubsub.node.transport.usage import Usage
from smartpubsub.node.transport.worker_thread import WorkerThread
from smartpubsub.protocols.capabilities import Gathers
from smartpubsub.protocols.codecs import Codec
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    CancelTimer,
    Connect,
    Connected,
    Core,
    Deliver,
    Departed,
    Disconnected,
    Effect,
    Event,
    Load,
    Loaded,
    Peer,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
    Unknown,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)

_HOST = b"host/"
_INCARNATION = _HOST + b"incarnation"
_CLOCK = _HOST + b"clock"
_INCARNATION_BYTES = 8
_DRAIN_POLL_S = 0.01
GATHER_COUNT_MIN = 4
"""A host whose last turn had fewer events and calls handles the next one at once."""
CALLS_PER_MEASUREMENT = 4
"""Measuring processor time takes a system call, so the host does it once for so many calls."""
FOLLOW_UP_FACTOR = 4
"""Deferred work in a peer's name also makes other nodes work, whose answers are charged to them;
so the host charges it to a stranger several times. A member of the overlay is often such another
node itself."""
_ASK_BITS = 48
"""A core's requests have numbers below this power of two; the bits above are the core's number."""


class HostStoppedError(SmartPubSubError):
    """A host that has stopped."""


class Storage(Protocol):
    """Durable storage of keys and values."""

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Store values, or remove keys whose value is None; durable when this returns.

        If there is no room, raise `StorageLimitError` and store nothing.
        """
        ...

    def load(self, prefix: bytes) -> Sequence[tuple[bytes, bytes]]:
        """Read the keys with a prefix, in order, and their values."""
        ...


@dataclass(slots=True, eq=False)
class _Request:
    """A call of the application into the core."""

    action: Callable[[int], tuple[Any, list[Effect]]]
    done: trio.Event
    result: Any = None
    error: Exception | None = None
    commits_first: bool = False
    is_refused: bool = False
    is_acknowledged: bool = False
    """Whether another component sets `done`, unless the call fails."""

    def effects(self, now: int) -> list[Effect]:
        """Call the core; an error goes to the caller, and has no effects."""
        try:
            self.result, effects = self.action(now)
        except Exception as error:  # Any error goes to the caller, and must not stop the node.
            self.error = error
            return []
        return effects


_Item: TypeAlias = Event | Several | _Request


@dataclass(slots=True, eq=False)
class _Work:
    """The results of some inputs: changes of the storage, and effects that follow them."""

    spent_s: float = 0.0
    """The processor time of the thread after the last input."""
    has_unmeasured_calls: bool = False
    """Whether calls of the application have followed that input."""
    ends_early: bool = False
    """Whether the host has to store the changes before it handles another input."""
    changes: dict[bytes, bytes | None] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    commits_first: bool = False
    """Whether no message may be sent before the changes are stored."""
    early: list[Effect] = field(default_factory=list)
    """Deliveries that need not wait for the changes."""
    keeps_order: bool = False
    """Whether later deliveries have to follow one that waits for the changes."""

    def measure(self, spent_s: float) -> None:
        """Record the processor time of the thread."""
        self.spent_s, self.has_unmeasured_calls = spent_s, False


Journal: TypeAlias = Callable[[object, int], Iterable[tuple[bytes, bytes | None]]]
"""Returns the changes that the application stores with an item that the core delivers at a time.

The host stores them in the same transaction as the core's own changes, before it carries out any
effect.
"""

MayPrecede: TypeAlias = Callable[[object], bool | None]
"""Whether an item for which the journal stores nothing may be delivered before the commit.

True lets it go first. With False, later items wait with it. With None, it alone waits.
"""

OnRestart: TypeAlias = Callable[[int], list[Effect]]
"""Restores, in a core that was restarted from storage, what the core does not store.

A host without this ends with an exception of its core, as experiments and tests require.
"""


class Host:
    """One core, its connections, its storage, its timers and its clock."""

    def __init__(
        self,
        identity: Identity,
        make_core: Callable[[Contact], Core],
        codecs: Iterable[Codec],
        storage: Storage,
        *,
        on_deliver: Callable[[object], None],
        journal: Journal = lambda _item, _now: (),
        may_precede: MayPrecede = lambda _item: False,
        on_restart: OnRestart | None = None,
        neighbours: Callable[[], Container[Peer]] = lambda: (),
        is_member: Callable[[Peer], bool] = lambda _peer: False,
        settings: HostSettings | None = None,
        rng: Random | None = None,
        make_tcp: MakeTcp | None = None,
    ) -> None:
        self.settings = settings = settings or HostSettings()
        self.counts = Counts()
        self.own = Contact.of(identity.peer)
        """This node, with its addresses once it runs."""
        self.clock = Clock(trio.current_time)
        self.book = AddressBook(
            settings.peer_count_max, settings.address_count_max, settings.address_bytes_max
        )
        self._make_core = make_core
        self._core: Core
        self._gathering: Gathers | None = None
        """The core, if it can gather the messages of a turn."""
        self._core_number = 0
        self._codecs = {codec.message: codec for codec in codecs}
        self._storage = storage
        self._storing = WorkerThread("storage")
        self._on_deliver = on_deliver
        self._journal = journal
        self._may_precede = may_precede
        self._on_restart = on_restart
        self._neighbours = neighbours
        self._is_member = is_member
        self._timers = Timers()
        self._inbox: Inbox[_Item] = Inbox(
            settings.event_count_max, settings.event_bytes_max, settings.peer_count_max, is_member
        )
        self._shares = Shares(
            settings.peer_share_max,
            settings.peer_burst_s,
            settings.peer_count_max,
            is_member,
            settings.strangers_share_max,
        )
        self._processor = ProcessorClock()
        self._turns = Turns(self._inbox, self._timers, self._delay_us_of)
        self.bans = Bans(settings.ban_s, settings.peer_count_max)
        self.containment = Containment(self.bans)
        self.connections = Connections(
            identity,
            settings,
            self._on_connection,
            self.counts,
            make_tcp,
            self.bans,
            self._on_stream_failure,
        )
        self._backoff = Backoff(
            settings.backoff_s_first,
            settings.backoff_s_max,
            settings.peer_count_max,
            rng or Random(),
        )
        self._hearsay = Hearsay(settings.peer_count_max)
        self._dialer = Dialer(
            self.connections,
            self.book,
            self._backoff,
            self._hearsay,
            settings,
            self.counts,
            on_failure=lambda peer: self._inbox.put(Disconnected(peer)),
            on_departed=lambda peer: self._inbox.put(Departed(peer)),
            on_unknown=lambda peer: self._inbox.put(Unknown(peer)),
        )
        self._usage = Usage()
        self._inbound = Inbound(
            self.connections,
            self.book,
            self._inbox,
            self._usage,
            self._shares,
            self._processor,
            settings,
            self.counts,
        )
        self._lanes = Lanes(self._dialer, self._spawn, self._on_answer, settings, self.counts)
        self._encoded: tuple[object, bytes] = (None, b"")
        """The last message that was encoded, and its frame."""
        self._counted: tuple[object, Mapping[str, int]] = (None, {})
        """The last message that was sent, and its number of entries by kind."""
        self._split: tuple[object, tuple[Any, Any]] = (None, (None, None))
        """The last message that was split, and its parts for before and after the commit."""
        self._requests: list[_Request] = []
        """Calls whose effects the host has not carried out yet."""
        self._late: dict[bytes, bytes | None] = {}
        """Changes that may wait for a later transaction."""
        self._late_until = inf
        self._nursery: trio.Nursery | None = None
        self._may_go_on = trio.Event()
        self._may_go_on.set()
        self._stopping = trio.Event()
        self._stopped = trio.Event()
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Ask: self._ask,
            Answer: self._answer,
            Deliver: lambda effect: self._on_deliver(effect.item),
            Load: self._load,
            Connect: self._connect,
        }
        for codec in self._codecs.values():
            self.connections.serve(codec.protocol, self._inbound.handler(codec))

    # --- for the application ---

    async def run(
        self,
        listen: Sequence[str],
        announce: Sequence[str] = (),
        *,
        task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run until `stop` is called; cancellation ends the host at once."""
        try:
            with self._storing:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await self._run(nursery, listen, announce, task_status)
                    nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            with suppress(KeyError):  # The host may have been cancelled before.
                trio.lowlevel.remove_instrument(self._processor)
            self._stopped.set()
            self._refuse_requests()

    async def _run(
        self,
        nursery: trio.Nursery,
        listen: Sequence[str],
        announce: Sequence[str],
        task_status: TaskStatus[None],
    ) -> None:
        trio.lowlevel.add_instrument(self._processor)
        # `trio.current_time` looks for its clock at each call.
        self.clock.follow(trio.lowlevel.current_clock().current_time)
        await nursery.start(self.connections.run, listen, announce)
        self.own = Contact.of(self.own.peer, self.connections.addresses)
        await self._start_core()
        nursery.start_soon(self._handle_all)
        task_status.started()
        await self._stopping.wait()
        with trio.move_on_after(self.settings.drain_s):
            await self._drain()
        self._store_late()
        with trio.move_on_after(self.settings.linger_s):
            await self._linger()

    async def stop(self) -> None:
        """Send what is queued, within a time limit, and stop."""
        self._stopping.set()
        await self._stopped.wait()

    def hold(self, is_held: bool) -> None:
        """Pause the core, or let it go on; tests use this to make a node slow."""
        if not is_held:
            self._may_go_on.set()
        elif self._may_go_on.is_set():
            self._may_go_on = trio.Event()

    async def call(
        self,
        action: Callable[[int], tuple[T, list[Effect]]],
        *,
        commits_first: bool = False,
        acknowledged: trio.Event | None = None,
    ) -> T:
        """Call a method of the core with the time, and carry out its effects.

        When this returns, the changes are on disk. With `commits_first` they are so before any
        message is sent. With `acknowledged`, return when that is set.
        """
        request = _Request(
            action,
            trio.Event() if acknowledged is None else acknowledged,
            commits_first=commits_first,
            is_refused=self._stopped.is_set(),
            is_acknowledged=acknowledged is not None,
        )
        if not request.is_refused:
            self._inbox.put(request)
            await request.done.wait()
        if request.is_refused:
            raise HostStoppedError("the node has stopped")
        if request.error is not None:
            raise request.error
        result: T = request.result
        return result

    @property
    def connected(self) -> list[Peer]:
        """The peers that there are connections to."""
        return self._usage.peers()

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of messages that have not arrived as a whole."""
        return self._inbound.unfinished.bytes

    @property
    def garbage(self) -> dict[Peer, int]:
        """The number of undecodable messages by peer, the latest peer last."""
        return dict(self._inbound.garbage)

    async def do(self, action: Callable[[int], list[Effect]]) -> None:
        """Call a method of the core that returns only effects."""
        await self.call(lambda now: (None, action(now)))

    def _refuse_requests(self) -> None:
        while (item := self._inbox.take()) is not None:
            if isinstance(item, _Request):
                self._requests.append(item)
        for request in self._requests:
            request.is_refused = True
            request.done.set()

    # --- the core ---

    async def _start_core(self) -> None:
        """Make the core, and have it load its stored state before it handles anything else."""
        self._timers.clear()
        self._core_number += 1
        self._core = core = self._make_core(self.own)
        self._gathering = core if isinstance(core, Gathers) else None
        work = _Work()
        waiting: deque[Event] = deque([await self._started()])
        now = self.clock.now()
        while waiting:
            for effect in self._core.handle(waiting.popleft(), now):
                if isinstance(effect, Load):
                    waiting.append(Loaded(effect.prefix, tuple(self._storage.load(effect.prefix))))
                else:
                    self._note([effect], work, now)
        if self._core_number > 1 and self._on_restart is not None:
            self._note(self._on_restart(now), work, now)
        await self._finish(work)

    async def _restart_core(self) -> None:
        """Replace a core that may be half changed; inputs that wait for it are lost, except calls.

        Peers notice it as they notice a restarted process: their connections end.
        """
        await trio.sleep(self.containment.pause_s)
        with trio.move_on_after(self.settings.close_s):
            async with trio.open_nursery() as nursery:
                for peer in self.connected:
                    nursery.start_soon(self.connections.close, peer)
        self._inbox.keep(lambda item: isinstance(item, _Request))
        self._store_late()
        self.containment.restarted()
        await self._start_core()

    async def _handle_all(self) -> None:
        gather_s = 0.0
        while True:
            await self._inbox.wait(self._deadline(), gather_s)
            while not self._may_go_on.is_set():
                await self._may_go_on.wait()
            began_at = trio.current_time()
            work = _Work(self._processor.now())
            handled = self._handle_turn(work)
            has_backlog = len(self._inbox) > 0
            await self._finish(work)
            for request in self._requests:
                if request.error is not None or not request.is_acknowledged:
                    request.done.set()
            self._requests.clear()
            if trio.current_time() >= self._late_until:
                await self._commit({})
            # A busy host that is not behind waits a moment, and handles more events together.
            took_s = trio.current_time() - began_at
            is_busy = handled >= GATHER_COUNT_MIN and not has_backlog
            gather_s = min(took_s, self.settings.gather_s_max) if is_busy else 0.0
            while self.containment.must_restart:
                await self._restart_core()

    def _handle_turn(self, work: _Work) -> int:
        """Handle waiting inputs, up to a limit of time and number; return their number."""
        settings, began_s = self.settings, work.spent_s
        handled = 0
        if self._gathering is not None:
            self._gathering.gather()
        while handled < settings.commit_count_max:
            is_lone = self._inbox.source_count <= 1
            limit_s = settings.lone_turn_s_max if is_lone else settings.turn_s_max
            if work.ends_early or work.spent_s - began_s > limit_s:
                break
            if self.containment.must_restart or not self._handle_next(work):
                break
            handled += 1
        if not len(self._inbox) and not self.containment.must_restart:
            for timer in self._timers.take_early():
                self._handle(TimerFired(timer), self.clock.now(), work)
        # A core that has failed may hold back acknowledgements of what it has not stored.
        if self._gathering is not None and not self.containment.must_restart:
            self._release(self._gathering, work)
        return handled

    async def _finish(self, work: _Work) -> None:
        """Store the changes, then carry out the effects; those that may go first do."""
        if not work.commits_first:
            self._perform(work.early)
        if work.changes:
            if not work.commits_first:
                work.effects = [late for e in work.effects if (late := self._late_part(e))]
            # Writes what goes first: the storing thread would compete for the interpreter.
            await trio.lowlevel.checkpoint()
            if not await self._commit(work.changes):
                return
        if work.commits_first:
            self._perform(work.early)
        self._perform(work.effects)

    async def _commit(self, changes: dict[bytes, bytes | None]) -> bool:
        """Store changes, together with those that have waited; return whether there was room."""
        self.counts.commits += 1
        try:
            await self._storing.call(self._storage.apply, self._with_late(changes))
        except StorageLimitError as error:
            if self._on_restart is None:
                raise
            self.containment.drop_commit(error, trio.current_time())
            for request in self._requests:
                request.error = request.error or error
            return False
        return True

    def _with_late(self, changes: dict[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
        late, self._late, self._late_until = self._late, {}, inf
        return list((late | changes).items())

    def _store_late(self) -> None:
        """Store the changes that have waited; without room they are lost, as in a crash."""
        with suppress(StorageLimitError):
            self._storage.apply(self._with_late({}))

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            try:
                self._carry_out[type(effect)](effect)
            except Exception as error:  # For example, a message that cannot be encoded.
                self._on_failure(type(effect).__name__, error)

    def _late_part(self, effect: Effect) -> Effect | None:
        """Send at once the part of an effect that may precede the commit; return the rest."""
        if type(effect) is not Send:
            return effect
        split = self._codecs[type(effect.message)].at_once
        if split is None:
            return effect
        if effect.message is not self._split[0]:
            self._split = effect.message, split(effect.message)
        early, late = self._split[1]
        if early is not None:
            self._send(Send(effect.peer, early))
        return None if late is None else Send(effect.peer, late)

    def _deadline(self) -> float:
        due_at = self._timers.next_at
        if due_at is None:
            return self._late_until
        now = trio.current_time()
        return min(self._late_until, now + (due_at - self.clock.now()) / MICROSECONDS)

    def _handle_next(self, work: _Work) -> bool:
        """Handle one event, call or timer; return False if there is none."""
        now = self.clock.now()
        item = self._turns.next(now)
        if item is None:
            return False
        if isinstance(item, _Request):
            self._requests.append(item)
            work.commits_first |= item.commits_first
            self._note(item.effects(now), work, now)
            work.has_unmeasured_calls = len(self._requests) % CALLS_PER_MEASUREMENT > 0
            if not work.has_unmeasured_calls:
                work.measure(self._processor.now())
        else:
            self._handle(item, now, work)
        return True

    def _handle(self, item: Event | Several, now: int, work: _Work) -> None:
        if work.has_unmeasured_calls:
            work.measure(self._processor.now())
        for event in item.events if isinstance(item, Several) else (item,):
            if self.containment.must_restart:
                break
            try:
                self._note(self._core.handle(event, now), work, now)
            except Exception as error:  # No input of a peer may end the node.
                if self._on_restart is None:
                    raise
                banned = self.containment.drop_input(event, error, trio.current_time())
                if banned is not None:
                    self._spawn(self.connections.close, banned)
        spent_s = self._processor.now()  # A system call: once for each input.
        peer, cost_s = getattr(item, "peer", OWN), spent_s - work.spent_s
        if isinstance(item, TimerFired) and peer and not self._is_member(peer):
            cost_s *= FOLLOW_UP_FACTOR
        self._inbox.charge(peer, cost_s)
        if peer != OWN:  # The node itself has no share, and is no stranger.
            self._shares.charge(peer, cost_s, spent_s)
            if self._inbox.delays_others and self._shares.delay_s(peer, spent_s) > 0:
                work.ends_early = True
        work.measure(spent_s)

    def _delay_us_of(self, peer: Peer) -> int:
        """How long a peer's timers wait, because the peer has used its share while others wait."""
        if not self._inbox.delays_others:
            return 0
        delay_s = self._shares.delay_s(peer, self._processor.now())
        return round(min(delay_s, self.settings.delay_s_max) * MICROSECONDS)

    def _release(self, core: Gathers, work: _Work) -> None:
        """Have the core send the messages that it has held back in this turn."""
        now = self.clock.now()
        try:
            self._note(core.release(now), work, now)
        except Exception as error:
            if self._on_restart is None:
                raise
            self.containment.drop_release(error, trio.current_time())

    def _note(self, effects: Iterable[Effect], work: _Work, now: int) -> None:
        """Carry out the effects that cannot wait, and collect the others until after the commit."""
        for effect in effects:
            if isinstance(effect, Store):
                key, value, may_be_late = effect
                if not may_be_late or key in work.changes:
                    work.changes[key] = value
                    continue
                self._late[key] = value
                if self._late_until == inf:
                    self._late_until = trio.current_time() + self.settings.late_s_max
            # Timers are set at once, because the next event may cancel them.
            elif isinstance(effect, SetTimer):
                timer, at, may_be_early, peer = effect
                self._timers.set(timer, at, may_be_early=may_be_early, peer=peer)
            elif isinstance(effect, CancelTimer):
                self._timers.cancel(effect.timer)
            else:
                if isinstance(effect, Deliver) and self._delivers_early(effect.item, work, now):
                    work.early.append(effect)
                else:
                    work.effects.append(effect)

    def _delivers_early(self, item: object, work: _Work, now: int) -> bool:
        """Add the application's changes for an item; return whether it may precede the commit."""
        changes = list(self._journal(item, now))
        if changes:
            work.changes.update(changes)
        may_precede = self._may_precede(item)
        if may_precede is None:
            return False
        work.keeps_order = work.keeps_order or bool(changes) or not may_precede
        return not work.keeps_order

    # --- effects ---

    def _send(self, effect: Send) -> None:
        self._put(effect.peer, effect.message, None)

    def _ask(self, effect: Ask) -> None:
        self.book.hear(effect.peer, effect.addresses)
        number = effect.number + (self._core_number << _ASK_BITS)
        self._put(effect.peer, effect.message, number)

    def _answer(self, effect: Answer) -> None:
        self._inbound.answer(effect.number, self._frame(effect.message))

    def _put(self, peer: Peer, message: object, number: int | None) -> None:
        if peer == self.own.peer:
            self.counts.dropped_unreachable += 1
            return
        codec = self._codecs[type(message)]
        frame = self._frame(message)
        if body_bytes(frame) > codec.message_bytes_max:
            self.counts.dropped_large += 1
            return
        if message is not self._counted[0]:
            self._counted = message, codec.kinds(message)
        for kind, count in self._counted[1].items():  # `Counter.update` takes longer.
            self.counts.sent_kinds[kind] += count
        self._lanes.put(peer, codec, frame, number)
        self._usage.touch(peer, trio.current_time())

    def _frame(self, message: object) -> bytes:
        # The same message often goes to many peers in a row.
        if message is not self._encoded[0]:
            self._encoded = message, self._codecs[type(message)].encode(message)
        return self._encoded[1]

    def _load(self, effect: Load) -> None:
        self._store_late()
        values = tuple(self._storage.load(effect.prefix))
        self._inbox.put(Loaded(effect.prefix, values))

    def _connect(self, effect: Connect) -> None:
        self.book.hear(effect.peer, effect.addresses)
        if effect.peer in self.connections:
            self._inbox.put(Connected(effect.peer))
        else:
            self._spawn(self._try_to_connect, effect.peer)

    async def _try_to_connect(self, peer: Peer) -> None:
        with suppress(UnreachableError):
            await self._dialer.connect(peer)

    # --- answers and the end ---

    def _on_answer(self, peer: Peer, codec: Codec, number: int, frame: bytes) -> None:
        core_number, number = divmod(number, 1 << _ASK_BITS)
        if core_number != self._core_number:
            return  # A restart has replaced the core that asked.
        try:
            message = codec.decode(frame)
        except WireError:
            self.counts.garbage += 1
            return
        if not self._hearsay.is_heeded(peer, trio.current_time()):
            self.counts.unheeded += 1
            message = codec.without_contacts(message)
        self._inbound.hear_of(codec.contacts(message), peer)
        self._inbox.put(Answered(peer, message, number, self.connections.prefix_of(peer)))

    async def _drain(self) -> None:
        """Wait until everything is written, except to peers that are not connected."""
        while len(self._inbox) or not self._lanes.is_idle(self.connected):
            await trio.sleep(_DRAIN_POLL_S)

    async def _linger(self) -> None:
        """Wait until peers have read what was written; a closed connection discards the rest."""
        self._lanes.end()
        while not self._lanes.have_ended(self.connected):
            await trio.sleep(_DRAIN_POLL_S)

    # --- connections ---

    def shun(self, peer: Peer) -> None:
        """Close the connections to a convicted peer, and have no others with it."""
        if self.bans.convict(peer):  # Pulsarcast delivers a conviction for each fork of an author.
            _log.warning("a peer is convicted", extra={"fields": {"peer": peer_text(peer)}})
            self._spawn(self.connections.close, peer)

    def _on_connection(self, peer: Peer, is_there: bool) -> None:
        if self.bans.is_banned(peer, trio.current_time()):
            if is_there:
                self.counts.refused_banned += 1
                self._spawn(self.connections.close, peer)
            else:
                was_connected = self._usage.disconnect(peer)
                self._inbound.forget(peer)
                if was_connected:  # Not every ban restarts the core.
                    self._inbox.put(Disconnected(peer))
        elif is_there:
            self._backoff.succeed(peer)
            self._usage.connect(peer, trio.current_time())
            _log.info("connected", extra={"fields": {"peer": peer_text(peer)}})
            self._inbox.put(Connected(peer))
            self._spawn(self._inbound.identify, peer)
            self._prune()
        else:
            self._usage.disconnect(peer)
            self._inbound.forget(peer)
            _log.info("disconnected", extra={"fields": {"peer": peer_text(peer)}})
            self._inbox.put(Disconnected(peer))
            self._spawn(self._see_whether_gone, peer)

    async def _see_whether_gone(self, peer: Peer) -> None:
        """Find out whether a peer that has disconnected has left the network."""
        if await self._dialer.is_gone(peer):
            _log.info("a peer has left", extra={"fields": {"peer": peer_text(peer)}})
            self._inbox.put(Departed(peer))
        elif peer in self._neighbours():
            await self._try_to_connect(peer)

    def _prune(self) -> None:
        too_many = self.connections.count - self.settings.connection_count_high
        if too_many > 0:
            since = trio.current_time() - self.settings.idle_s_min
            for peer in self._usage.idlest(too_many, since, self._neighbours()):
                self.counts.pruned += 1
                self._usage.disconnect(peer)
                self._spawn(self.connections.close, peer)

    def _on_failure(self, what: str, error: Exception) -> None:
        if self._on_restart is None:
            raise error
        self.containment.drop(what, error)

    def _on_stream_failure(self, peer: Peer, error: Exception) -> None:
        self._on_failure("a stream", error)
        self.containment.ban(peer, trio.current_time())
        self._spawn(self.connections.close, peer)

    def _spawn(self, task: Callable[..., Any], *arguments: Any) -> None:
        async def guarded() -> None:
            try:
                await task(*arguments)
            except Exception as error:
                self._on_failure(task.__qualname__, error)

        if self._nursery is not None and not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(guarded)

    async def _started(self) -> Started:
        """Store how the node starts: with a higher incarnation than ever, and at which time.

        If the storage was lost, the incarnation comes from the clock.
        """
        stored = dict(self._storage.load(_HOST))
        before = int.from_bytes(stored.get(_INCARNATION, b""), "big")
        incarnation = max(int(time.time()), before + 1 if before else 0)
        set_us, clock = clock_set(self.clock.now(), stored.get(_CLOCK))
        if set_us:
            _log.warning(
                "the clock was set since the last start",
                extra={"fields": {"seconds": set_us / MICROSECONDS}},
            )
        changes = [(_INCARNATION, incarnation.to_bytes(_INCARNATION_BYTES, "big"))]
        changes += [] if clock is None else [(_CLOCK, clock)]
        await self._storing.call(self._storage.apply, changes)
        return Started(incarnation, set_us)
