"""The simulated world: a heap of events, and nodes whose cores do not know that it is one.

Time is an integer of microseconds. What happens at the same time happens in the order in which it
was brought about, so that the same seed gives the same world in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
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
from smartpubsub.sim.network import Network, NetworkOptions
from smartpubsub.sim.rows import delivered_row
from smartpubsub.sim.trace import Trace

Sizes: TypeAlias = Mapping[type, Callable[[Any], int]]
"""How many bytes a message of each type takes on the wire."""

_ARRIVALS = frozenset({Received, Asked, Answered})


@dataclass(slots=True, eq=False)
class Host:
    """What runs one core: its place in the network, its storage, its timers, its clock."""

    number: int
    peer: bytes
    make_core: Callable[[int], Core]
    """Makes the core of an incarnation."""
    addresses: tuple[bytes, ...]
    core: Core
    storage: dict[bytes, bytes] = field(default_factory=dict)
    timers: dict[Timer, int] = field(default_factory=dict)
    is_up: bool = True
    incarnation: int = 0
    """Grows with every crash; what was meant for an earlier one does not reach a later one."""
    paused_until: int = 0
    skew_us: int = 0
    drift_ppm: int = 0
    sent_count: int = 0
    received_count: int = 0
    sent_bytes: int = 0

    def clock(self, now: int) -> int:
        """What this node takes for the time."""
        return now + self.skew_us + now * self.drift_ppm // 1_000_000

    def when(self, clock: int) -> int:
        """When this node's clock will show a time."""
        return -((self.skew_us - clock) * 1_000_000 // (1_000_000 + self.drift_ppm))


class World:
    """Nodes and a network, and everything that is going to happen."""

    def __init__(
        self,
        options: NetworkOptions,
        seed: int,
        sizes: Sizes,
        *,
        trace: Trace | None = None,
        on_deliver: Callable[[Host, object], None] | None = None,
        on_receive: Callable[[Host, object], None] | None = None,
    ) -> None:
        self.now = 0
        self.hosts: list[Host] = []
        self.network = Network(options, seed)
        self.on_deliver = on_deliver
        self.on_receive = on_receive
        self._by_peer: dict[bytes, Host] = {}
        self._sizes = sizes
        self._trace = trace
        self._heap: list[tuple[int, int, Host | None, int, Any]] = []
        self._sequence = 0
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

    # --- who is there ---

    def add(
        self, peer: bytes, make_core: Callable[[int], Core], addresses: tuple[bytes, ...] = ()
    ) -> Host:
        """A new node, which starts now."""
        host = Host(len(self.hosts), peer, make_core, addresses, make_core(0))
        self.hosts.append(host)
        self._by_peer[peer] = host
        self.network.add_node()
        self._happen(host, Started(host.incarnation))
        return host

    def crash(self, host: Host, *, with_storage: bool = False) -> None:
        """Stop a node at once; what it had in memory is lost, and its storage too if asked for."""
        self.fault("crash", host.number)
        host.is_up = False
        host.incarnation += 1
        host.timers.clear()
        if with_storage:
            host.storage.clear()

    def restart(self, host: Host) -> None:
        """Start a crashed node again, with what is in its storage."""
        self.fault("restart", host.number)
        host.is_up = True
        host.core = host.make_core(host.incarnation)
        self._happen(host, Started(host.incarnation))

    def pause(self, host: Host, until: int) -> None:
        """Let nothing happen at a node until a time; then everything, in order."""
        self.fault("pause", host.number)
        host.paused_until = until

    def fault(self, kind: str, node: int) -> None:
        """Note that something has gone wrong, or right again, with a node."""
        if self._trace is not None:
            self._trace.add(self.now, "fault", node, -1, kind, 0)

    # --- time ---

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Have something done to the world at a time."""
        self._push(time, None, 0, action)

    def run(self, until: int) -> None:
        """Let everything happen that happens up to a time, which it then is."""
        while self._heap and self._heap[0][0] <= until:
            self.step()
        self.now = max(self.now, until)

    def run_while(self, condition: Callable[[], bool], until: int) -> bool:
        """Go on while a condition holds, at most until a time; whether it stopped holding."""
        while condition():
            if not self._heap or self._heap[0][0] > until:
                return False
            self.step()
        return True

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, sequence, host, incarnation, event = heappop(self._heap)
        if host is None:
            event()
            return
        if host.incarnation != incarnation or not host.is_up:
            if type(event) in _ARRIVALS:
                self._drop(host, self._by_peer[event.peer].number, event.message, 0)
            return
        if host.paused_until > self.now:
            self._postpone(host, sequence, event)
            return
        kind = type(event)
        if kind is TimerFired:
            if host.timers.get(event.timer) != sequence:
                return  # It was cancelled, or set anew.
            del host.timers[event.timer]
            if self._trace is not None:
                self._trace.add(self.now, "timer", host.number, -1, _owner_of(event.timer), 0)
        elif kind in _ARRIVALS:
            host.received_count += 1
            self._note_arrival(host, event)
        self._happen(host, event)

    def _note_arrival(self, host: Host, event: Received | Asked | Answered) -> None:
        if self._trace is not None:
            sender = self._by_peer[event.peer].number
            name = type(event.message).__name__
            self._trace.add(self.now, "receive", host.number, sender, name, 0)
        if self.on_receive is not None:
            self.on_receive(host, event.message)

    def _happen(self, host: Host, event: Event) -> None:
        self.carry_out(host, host.core.handle(event, host.clock(self.now)))

    def _postpone(self, host: Host, sequence: int, event: Event) -> None:
        self._push(host.paused_until, host, host.incarnation, event)
        if type(event) is TimerFired and host.timers.get(event.timer) == sequence:
            host.timers[event.timer] = self._sequence

    def _push(self, at: int, host: Host | None, incarnation: int, event: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, host, incarnation, event))

    # --- effects ---

    def carry_out(self, host: Host, effects: Iterable[Effect]) -> None:
        """Do what a core has asked for."""
        for effect in effects:
            self._carry_out[type(effect)](host, effect)

    def _send(self, host: Host, effect: Send) -> None:
        self._transmit(host, effect, Received(host.peer, effect.message, host.addresses))

    def _ask(self, host: Host, effect: Ask) -> None:
        event = Asked(host.peer, effect.message, effect.number, host.addresses)
        self._transmit(host, effect, event)

    def _answer(self, host: Host, effect: Answer) -> None:
        self._transmit(host, effect, Answered(host.peer, effect.message, effect.number))

    def _transmit(self, host: Host, effect: Send | Ask | Answer, event: Event) -> None:
        message = effect.message
        size = self._sizes[type(message)](message)
        receiver = self._by_peer.get(effect.peer)
        host.sent_count += 1
        host.sent_bytes += size
        if receiver is None:
            self._drop(host, -1, message, size)
            return
        arrivals = self.network.arrivals(self.now, host.number, receiver.number, size)
        if self._trace is not None:
            kind = type(message).__name__
            self._trace.add(self.now, "send", host.number, receiver.number, kind, size)
        if not arrivals:
            self._drop(host, receiver.number, message, size)
        for at in arrivals:
            self._push(at, receiver, receiver.incarnation, event)

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        at = max(self.now, host.when(effect.at))
        self._push(at, host, host.incarnation, TimerFired(effect.timer))
        host.timers[effect.timer] = self._sequence

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
        if effect.value is None:
            host.storage.pop(effect.key, None)
        else:
            host.storage[effect.key] = effect.value

    def _load(self, host: Host, effect: Load) -> None:
        found = sorted(item for item in host.storage.items() if item[0].startswith(effect.prefix))
        self._push(self.now, host, host.incarnation, Loaded(effect.prefix, tuple(found)))

    def _connect(self, host: Host, effect: Connect) -> None:
        there = self._by_peer.get(effect.peer)
        is_there = there is not None and there.is_up
        answer = Connected(effect.peer) if is_there else Disconnected(effect.peer)
        after = 2 * self.network.options.latency_us
        self._push(self.now + after, host, host.incarnation, answer)


def _owner_of(timer: Timer) -> str:
    """The name of the core that a timer belongs to, which it begins with."""
    return str(timer[0]) if isinstance(timer, tuple) else str(timer)
