"""Real nodes in several processes: start, command, crash and restart them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import trio

from smartpubsub.node.identity import peer_text
from smartpubsub.testbed.messages import (
    Act,
    Command,
    End,
    Failed,
    Join,
    Know,
    Leave,
    News,
    Note,
    Setup,
    StartNode,
    Struck,
    ToApplication,
    Up,
    Usage,
)
from smartpubsub.testbed.processes import Launcher, Process, ProcessError
from smartpubsub.testbed.timeline import Timeline


@dataclass(slots=True, eq=False)
class Member:
    """A worker and its state."""

    process: Process
    nodes: tuple[int, ...]
    before: Usage | None = None
    """Its resource use before it had nodes."""
    cpu_s: float = 0.0
    rss_mb_max: float = 0.0
    killed_us: int | None = None
    stop: str | None = None
    """Why it has ended or will: `crash`, or `leave` after it has said goodbye."""
    start: int = 0
    """The number of earlier starts of its first node."""
    has_ended: trio.Event = field(default_factory=trio.Event)
    """Whether its last report has arrived."""

    def take(self, usage: Usage) -> None:
        """Record a report of resource use."""
        if self.before is None:
            self.before = usage
        self.cpu_s = usage.cpu_s
        self.rss_mb_max = max(self.rss_mb_max, usage.rss_mb)


class Cluster:
    """All nodes of a testbed."""

    def __init__(
        self,
        launcher: Launcher,
        setup: Setup,
        listen: Callable[[Note], None],
        nursery: trio.Nursery,
        on_news: Callable[[int, News], None] | None = None,
    ) -> None:
        """Make a cluster; `on_news` gets the news of whole nodes at once, including failures."""
        self.members: list[Member] = []
        """All workers, including those that have ended."""
        self._launcher = launcher
        self._setup = setup
        self._nursery = nursery
        self._listen = listen
        self._on_news = on_news
        self._timeline = Timeline(self._on_note)
        self._member_of: dict[int, Member] = {}
        """The workers of nodes that are up or starting."""
        self._starts: dict[int, int] = {}
        self._ports: dict[int, int] = {}
        self._is_ending = False
        self._changing = trio.Lock()
        """Held while a process starts or ends: that is slow on a busy machine, and a node must not
        get two processes."""

    # --- commands ---

    async def start(self, places: Iterable[Sequence[int]]) -> None:
        """Start nodes, one process for each group of nodes."""
        for nodes in places:
            await self._start(tuple(nodes), is_shared=len(nodes) > 1)

    async def crash(self, node: int, *, with_storage: bool = False, kind: str = "crash") -> None:
        """Kill the process of a node, which has no other node, if it is up."""
        async with self._changing:
            member = self._member_of.pop(node, None)
            if member is None:
                return
            assert len(member.nodes) == 1
            member.killed_us, member.stop = self._setup.now_us(), kind
            await self._launcher.kill(member.process)
            if with_storage:
                shutil.rmtree(self._setup.folder_of(node), ignore_errors=True)

    async def restart(self, node: int) -> None:
        """Restart a crashed node, with its data folder and its port."""
        async with self._changing:
            if not self.is_up(node):
                await self._start((node,), is_shared=False)

    async def start_whole(self, node: int, bootstrap: tuple[str, ...], clock_us: int) -> None:
        """Start a whole node, for the first time or again."""
        async with self._changing:
            if not self.is_up(node):
                await self._start((node,), is_shared=False, bootstrap=bootstrap, clock_us=clock_us)

    async def leave(self, node: int, seconds_max: float) -> None:
        """Close a whole node; kill its process if that takes too long."""
        async with self._changing:
            member = self._member_of.pop(node, None)
            if member is None:
                return
            member.stop = "leave"
            await member.process.send(Leave(node))
        with trio.move_on_after(seconds_max):
            await member.has_ended.wait()
        if not member.has_ended.is_set():
            member.killed_us = self._setup.now_us()
        await self._launcher.kill(member.process)
        await member.has_ended.wait()

    def signal(self, node: int, number: signal.Signals) -> bool:
        """Send a signal to the process of a node, if it is up."""
        member = self._member_of.get(node)
        if member is not None:
            # The launcher reaps processes only in `kill`, so the system has not reused the id.
            os.kill(member.process.id, number)
        return member is not None

    def process_of(self, node: int) -> tuple[int, int] | None:
        """The process id of a node that is up, and how often the node was started before."""
        member = self._member_of.get(node)
        return None if member is None else (member.process.id, member.start)

    def address_of(self, node: int) -> str:
        """The address that a node listens on."""
        peer = peer_text(self._setup.options.peers[node])
        return f"/ip4/127.0.0.1/tcp/{self._ports[node]}/p2p/{peer}"

    def is_up(self, node: int) -> bool:
        """Whether a node is up or starting."""
        return node in self._member_of

    async def send(self, command: Join | Act | ToApplication) -> None:
        """Send a command to the worker of a node, if it is up."""
        node = command.action.node if isinstance(command, Act) else command.node
        member = self._member_of.get(node)
        if member is not None:
            await member.process.send(command)

    async def send_all(self, command: Command) -> None:
        """Send a command to all workers."""
        for member in dict.fromkeys(self._member_of.values()):
            await member.process.send(command)

    async def send_ports(self) -> None:
        """Send all workers the addresses of the nodes."""
        await self.send_all(Know({port: node for node, port in self._ports.items()}))

    async def end(self) -> None:
        """Have all workers send their last reports, and end."""
        self._is_ending = True
        await self.send_all(End())
        for member in self.members:
            await member.has_ended.wait()

    def close(self) -> None:
        """Close the channels to all workers, which ends them."""
        self._is_ending = True
        for member in self.members:
            member.process.close()

    # --- processes ---

    async def _start(
        self,
        nodes: tuple[int, ...],
        *,
        is_shared: bool,
        bootstrap: tuple[str, ...] = (),
        clock_us: int = 0,
    ) -> None:
        setup = replace(self._setup, is_shared=is_shared)
        since_us = self._setup.now_us()
        start = self._starts.get(nodes[0], 0)
        member = Member(await self._launcher.launch(setup), nodes, start=start)
        self._timeline.open(member, since_us)
        self.members.append(member)
        self._nursery.start_soon(self._follow, member)
        for node in nodes:
            self._member_of[node] = member
            start = self._starts.get(node, 0)
            self._starts[node] = start + 1
            port = self._ports.get(node, 0)
            await member.process.send(StartNode(node, start, port, bootstrap, clock_us))
        if self._ports:
            await self.send_ports()

    async def _follow(self, member: Member) -> None:
        while (report := await member.process.next_report()) is not None:
            member.take(report.usage)
            notes, until_us = self._without_news(member, report.notes), report.until_us
            if member.killed_us is not None:
                # The report is from before the kill.
                notes = [n._replace(at_us=min(n.at_us, member.killed_us)) for n in notes]
                until_us = min(until_us, member.killed_us)
            self._timeline.add(member, until_us, notes)
            self._timeline.advance(self._setup.now_us())
        if member.stop is None and not self._is_ending:
            self._lost(member)
        if member.stop is not None:
            ended_us = self._setup.now_us() if member.killed_us is None else member.killed_us
            self._timeline.put(Note(ended_us, member.nodes[0], Struck(member.stop)))
        self._timeline.close(member)
        self._timeline.advance(self._setup.now_us())
        member.has_ended.set()

    def _lost(self, member: Member) -> None:
        """Handle a process that has ended by itself; a soak goes on after it."""
        what = f"the process of {_named(member.nodes)} has ended; its output is above"
        if self._on_news is None:
            raise ProcessError(what)
        self._pass_on(member, Failed(what))

    def _pass_on(self, member: Member, news: News) -> None:
        assert self._on_news is not None
        [node] = member.nodes
        if isinstance(news, Failed) and self._member_of.get(node) is member:
            del self._member_of[node]
            member.stop = "crash"
        self._on_news(node, news)

    def _without_news(self, member: Member, notes: list[Note]) -> list[Note]:
        """Pass on the news at once; return the other notes, which wait for all workers' reports."""
        if self._on_news is None:
            return notes
        rest: list[Note] = []
        for note in notes:
            if isinstance(note.value, Up):
                self._set_port(note.node, note.value)
            if isinstance(note.value, News):
                self._pass_on(member, note.value)
            else:
                rest.append(note)
        return rest

    def _set_port(self, node: int, up: Up) -> None:
        # Its address is /ip4/127.0.0.1/tcp/PORT.
        self._ports[node] = int.from_bytes(up.contact.addresses[0][-2:], "big")

    def _on_note(self, note: Note) -> None:
        if isinstance(note.value, Up):
            self._set_port(note.node, note.value)
        self._listen(note)


def _named(nodes: Sequence[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]} to {nodes[-1]}"
