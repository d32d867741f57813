"""The simulated world: nodes that run the cores of real nodes, a network, and a calendar of events.

Time is an integer of microseconds. Events of the same time are handled in the order in which they
were scheduled, so that the same seed gives the same world in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
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
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    Timer,
    TimerFired,
)
from smartpubsub.seam.tuples import made
from smartpubsub.sim.kernel.calendar import Calendar, Entry
from smartpubsub.sim.kernel.network import Network, NetworkOptions
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.sim.traces.rows import delivered_row
from smartpubsub.sim.traces.trace import Trace

Sizes: TypeAlias = Mapping[type, Callable[[Any], int]]
"""How many bytes a message of each type takes on the wire."""

_ARRIVALS = frozenset({Received, Asked, Answered})

# Most timers are cancelled long before their time. They sleep until it is near, and only timers
# that are still set then enter the calendar.
_NAP_BITS = 16

_FOREVER = 1 << 62


@dataclass(slots=True, eq=False)
class Host:
    """One node: its core, its place in the network, its storage, its timers and its clock."""

    number: int
    peer: bytes
    make_core: Callable[[int], Core]
    """Makes the core of an incarnation."""
    addresses: tuple[bytes, ...]
    core: Core
    prefix: str = ""
    """The address prefix that it shares with other nodes; empty if it shares none."""
    storage: dict[bytes, bytes] = field(default_factory=dict)
    undone: dict[bytes, bytes | None] = field(default_factory=dict)
    """The values that a crash restores: those before changes that may wait."""
    timers: dict[Timer, int] = field(default_factory=dict)
    is_up: bool = True
    is_refusing: bool = False
    """Whether its process has ended and its machine is up, and so refuses connections."""
    incarnation: int = 0
    """Grows with every crash; inputs for an earlier incarnation do not reach a later one."""
    paused_until: int = 0
    skew_us: int = 0
    clock_set_us: int = 0
    """What `Started` says at the next restart, by how much the host's clock was set."""
    drift_ppm: int = 0
    turn_count: int = 0
    """How many events and calls its core has handled."""
    sent_count: int = 0
    received_count: int = 0
    sent_bytes: int = 0

    def clock(self, now: int) -> int:
        """The time on this node's clock."""
        return now + self.skew_us + now * self.drift_ppm // 1_000_000

    def when(self, clock: int) -> int:
        """The time in the world at which this node's clock shows a time."""
        return -((self.skew_us - clock) * 1_000_000 // (1_000_000 + self.drift_ppm))


class World:
    """Nodes, a network, and all future events."""

    def __init__(
        self,
        options: NetworkOptions,
        seed: int,
        sizes: Sizes,
        *,
        through: Mapping[type, Callable[[Any], Any]] = MappingProxyType({}),
        trace: Trace | None = None,
        on_deliver: Callable[[Host, object], None] | None = None,
        on_receive: Callable[[Host, bytes, object], None] | None = None,
        on_effects: Callable[[Host, Sequence[Effect]], None] | None = None,
        on_handled: Callable[[Host, Event | None, Sequence[Effect]], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        contains_failures: bool = False,
    ) -> None:
        self.now = 0
        self.hosts: list[Host] = []
        self.network = Network(options, seed)
        self.on_deliver = on_deliver
        self.on_receive = on_receive
        self.on_fault: Callable[[str, int], None] | None = None
        self.on_effects = on_effects
        self.on_send: Callable[[int, int, object], None] | None = None
        """Called with the sender, the receiver and the message before the message is on its way."""
        self.on_lost = on_lost
        """Called when the network loses a message."""
        self.on_handled = on_handled
        """Called after a core has handled an event or, if that is None, a call."""
        self._contains_failures = contains_failures
        """Whether a node whose core raises an exception is restarted, as live nodes are."""
        self._by_peer: dict[bytes, Host] = {}
        self._sizes = sizes
        self._through = through
        """By message type, a function that messages pass through; usually none."""
        self._trace = trace
        self._calendar = Calendar()
        self._sequence = 0
        self._sleeping: dict[int, list[tuple[int, int, Host, Timer]]] = {}
        # One message often goes to many receivers in a row: make its input and measure it once.
        self._said = Received(b"", None)
        self._measured: object = None
        self._measured_bytes = 0
        self._carry_out: dict[type, Callable[[Host, Any], None]] = {
            Send: self._send,
            Ask: self._ask,
            Answer: self._answer,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Deliver: self._deliver,
            Store: self._store,
            Load: self._load,
            Connect: self._connect,
        }

    @property
    def node_count(self) -> int:
        """How many nodes there are, including those that are down."""
        return len(self.hosts)

    @property
    def sent_count(self) -> int:
        """How many messages they have sent."""
        return sum(host.sent_count for host in self.hosts)

    @property
    def pending_count(self) -> int:
        """How many future events are known now."""
        return len(self._calendar) + sum(map(len, self._sleeping.values()))

    # --- nodes ---

    def number_of(self, peer: bytes) -> int:
        """The number of a peer's node."""
        return self._by_peer[peer].number

    def prefix_of(self, peer: bytes) -> str:
        """The address prefix of a peer."""
        return self._by_peer[peer].prefix

    def add(
        self,
        peer: bytes,
        make_core: Callable[[int], Core],
        addresses: tuple[bytes, ...] = (),
        incarnation: int = 0,
    ) -> Host:
        """Add a node, which starts now."""
        host = Host(len(self.hosts), peer, make_core, addresses, make_core(incarnation))
        host.incarnation = incarnation
        self.hosts.append(host)
        self._by_peer[peer] = host
        self.network.add_node(region_of(peer, self.network.options.regions))
        self._hand_to_core(host, Started(host.incarnation))
        return host

    def leave(self, host: Host, goodbyes: Sequence[Effect]) -> None:
        """Have a node say goodbye and stop, with its storage kept."""
        self.carry_out(host, goodbyes)
        host.undone.clear()
        self._stop(host, "leave")
        host.is_refusing = True

    def crash(self, host: Host, *, with_storage: bool = False) -> None:
        """Stop a node at once; its memory is lost, and its storage too if `with_storage`."""
        self._stop(host, "crash")
        host.is_refusing = self.network.options.refuses_after_crash
        undone, host.undone = host.undone, {}
        for key, value in undone.items():
            self._store(host, Store(key, value))
        if with_storage:
            host.storage.clear()

    def _stop(self, host: Host, kind: str) -> None:
        self.fault(kind, host.number)
        host.is_up = False
        host.paused_until = 0
        host.incarnation += 1
        host.timers.clear()

    def restart(self, host: Host) -> None:
        """Start a stopped node again, with its storage."""
        self.fault("restart", host.number)
        host.is_up, host.is_refusing = True, False
        host.core = host.make_core(host.incarnation)
        self._hand_to_core(host, Started(host.incarnation, host.clock_set_us))

    def pause(self, host: Host, until: int) -> None:
        """Have a node handle nothing until a time; then all pending inputs, in order.

        A pause that begins in a longer one does not end it: inputs that wait for the end of the
        longer one would come after later inputs.
        """
        self.fault("pause", host.number)
        host.paused_until = max(host.paused_until, until)

    def fault(self, kind: str, node: int) -> None:
        """Report that a fault of a node begins or ends."""
        if self.on_fault is not None:
            self.on_fault(kind, node)
        if self._trace is not None:
            self._trace.add(self.now, "fault", node, -1, kind, 0)

    # --- time ---

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Schedule an action."""
        self._push(time, None, 0, action)

    def run(self, until: int) -> None:
        """Handle all events up to a time, and set the clock to that time."""
        take_next, process = self._calendar.next, self._process
        while (entry := take_next(until)) is not None:
            process(entry)
        self.now = max(self.now, until)

    def run_while(self, condition: Callable[[], bool], until: int) -> bool:
        """Handle events while a condition holds, until a time; return whether it ceased to hold."""
        take_next, process = self._calendar.next, self._process
        while condition():
            entry = take_next(until)
            if entry is None:
                return False
            process(entry)
        return True

    def step(self) -> None:
        """Handle the next event, if there is one; that may be the waking of timers."""
        entry = self._calendar.next(_FOREVER)
        if entry is not None:
            self._process(entry)

    def _process(self, entry: Entry) -> None:
        at, sequence, host, incarnation, event = entry
        if host is None:
            if sequence:
                self.now = at
                event()
            else:
                self._wake_timers(event)
            return
        self.now = at
        if host.incarnation != incarnation or not host.is_up:
            self._miss(host, event)
        elif host.paused_until > at:
            self._postpone(host, sequence, event)
        elif type(event) in _ARRIVALS:
            host.received_count += 1
            if self._trace is not None:
                sender = self._by_peer[event.peer].number
                kind = type(event.message).__name__
                self._trace.add(at, "receive", host.number, sender, kind, 0)
            if self.on_receive is not None:
                self.on_receive(host, event.peer, event.message)
            self._hand_to_core(host, event)
        elif type(event) is not TimerFired or self._is_due(host, sequence, event.timer):
            self._hand_to_core(host, event)

    def _hand_to_core(self, host: Host, event: Event) -> None:
        host.turn_count += 1
        try:
            effects = host.core.handle(event, host.clock(self.now))
        except Exception:
            if not self._contains_failures:
                raise
            self.crash(host)
            self.restart(host)
            return
        if self.on_handled is not None:
            self.on_handled(host, event, effects)
        if effects:
            self._perform(host, effects)

    def _is_due(self, host: Host, sequence: int, timer: Timer) -> bool:
        """Whether a timer was neither cancelled nor set again; if so, clear it."""
        if host.timers.get(timer) != sequence:
            return False
        del host.timers[timer]
        if self._trace is not None:
            self._trace.add(self.now, "timer", host.number, -1, owner_of(timer), 0)
        return True

    def _miss(self, host: Host, event: Event) -> None:
        if isinstance(event, Received | Asked | Answered):
            sender = self._by_peer[event.peer]
            self._drop(host, sender.number, event.message, 0)
            if host.is_refusing and sender.is_up:
                # The machine is up and refuses the connection, because no process listens.
                at = self.now + self.network.options.latency_us
                self._push(at, sender, sender.incarnation, Departed(host.peer))

    def _postpone(self, host: Host, sequence: int, event: Event) -> None:
        self._push(host.paused_until, host, host.incarnation, event)
        if type(event) is TimerFired and host.timers.get(event.timer) == sequence:
            host.timers[event.timer] = self._sequence

    def _push(self, at: int, host: Host | None, incarnation: int, event: Any) -> None:
        self._sequence = sequence = self._sequence + 1
        self._calendar.add((at, sequence, host, incarnation, event))

    def _wake_timers(self, nap: int) -> None:
        for at, sequence, host, timer in self._sleeping.pop(nap):
            if host.timers.get(timer) == sequence:
                self._calendar.add((at, sequence, host, host.incarnation, TimerFired(timer)))

    # --- effects ---

    def carry_out(self, host: Host, effects: Sequence[Effect]) -> None:
        """Carry out the effects that a core has returned for a call."""
        host.turn_count += 1
        if self.on_handled is not None:
            self.on_handled(host, None, effects)
        self._perform(host, effects)

    def _perform(self, host: Host, effects: Sequence[Effect]) -> None:
        if self.on_effects is not None:
            self.on_effects(host, effects)
        for effect in effects:
            self._carry_out[type(effect)](host, effect)

    def _send(self, host: Host, effect: Send) -> None:
        peer, message = effect
        if self._through:
            message = self._through[type(message)](message)
        if message is not self._said.message or host.peer is not self._said.peer:
            self._said = made(Received, (host.peer, message, host.addresses))
        self._transmit(host, peer, message, self._said)

    def _ask(self, host: Host, effect: Ask) -> None:
        peer, message, number, _ = effect
        if self._through:
            message = self._through[type(message)](message)
        event = made(Asked, (host.peer, message, number, host.addresses))
        self._transmit(host, peer, message, event)

    def _answer(self, host: Host, effect: Answer) -> None:
        peer, message, number = effect
        if self._through:
            message = self._through[type(message)](message)
        event = made(Answered, (host.peer, message, number, host.prefix))
        self._transmit(host, peer, message, event)

    def _transmit(self, host: Host, peer: bytes, message: object, event: Event) -> None:
        if message is not self._measured:
            self._measured = message
            self._measured_bytes = self._sizes[type(message)](message)
        size = self._measured_bytes
        host.sent_count += 1
        host.sent_bytes += size
        receiver = self._by_peer.get(peer)
        if receiver is None:
            self._drop(host, -1, message, size)
            return
        sender = host.number
        if self._trace is not None:
            kind = type(message).__name__
            self._trace.add(self.now, "send", sender, receiver.number, kind, size)
        if self.on_send is not None:
            self.on_send(sender, receiver.number, message)
        network = self.network
        if network.is_simple:
            at = network.earliest_arrival(self.now, sender, size)
            self._push(at, receiver, receiver.incarnation, event)
            return
        arrivals = network.arrivals(self.now, sender, receiver.number, size)
        if not arrivals:
            self._drop(host, receiver.number, message, size)
            if self.on_lost is not None:
                self.on_lost()
        for at in arrivals:
            self._push(at, receiver, receiver.incarnation, event)

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        timer, clock, *_ = effect
        at = max(self.now, host.when(clock))
        nap = at >> _NAP_BITS
        if nap == self.now >> _NAP_BITS:
            self._push(at, host, host.incarnation, TimerFired(timer))
        else:
            self._sequence += 1
            sleeping = self._sleeping.get(nap)
            if sleeping is None:
                sleeping = self._sleeping[nap] = []
                self._calendar.add((nap << _NAP_BITS, 0, None, 0, nap))
            sleeping.append((at, self._sequence, host, timer))
        host.timers[timer] = self._sequence

    def _cancel_timer(self, host: Host, effect: CancelTimer) -> None:
        host.timers.pop(effect.timer, None)

    def _drop(self, host: Host, peer: int, message: object, size: int) -> None:
        if self._trace is not None:
            self._trace.add(self.now, "drop", host.number, peer, type(message).__name__, size)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        if self._trace is not None:
            self._trace.add_row(delivered_row(self.now, host.number, effect.item))
        if self.on_deliver is not None:
            self.on_deliver(host, effect.item)

    def _store(self, host: Host, effect: Store) -> None:
        key, value, may_be_late = effect
        if may_be_late:
            host.undone.setdefault(key, host.storage.get(key))
        elif host.undone:  # A host stores changes that may wait in the next transaction.
            host.undone.clear()
        if value is None:
            host.storage.pop(key, None)
        else:
            host.storage[key] = value

    def _load(self, host: Host, effect: Load) -> None:
        found = sorted(item for item in host.storage.items() if item[0].startswith(effect.prefix))
        self._push(self.now, host, host.incarnation, Loaded(effect.prefix, tuple(found)))

    def _connect(self, host: Host, effect: Connect) -> None:
        there = self._by_peer.get(effect.peer)
        is_there = there is not None and there.is_up
        answer = Connected(effect.peer) if is_there else Disconnected(effect.peer)
        after = 2 * self.network.options.latency_us
        self._push(self.now + after, host, host.incarnation, answer)


def owner_of(timer: Timer) -> str:
    """The name of the core that a timer belongs to: its first element."""
    return str(timer[0]) if isinstance(timer, tuple) else str(timer)
