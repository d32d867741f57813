"""Real nodes in several processes, started, told what to do, crashed and restarted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import trio

from smartpubsub.testbed.messages import (
    Act,
    Command,
    End,
    Join,
    Know,
    Note,
    Setup,
    StartNode,
    Struck,
    Up,
    Usage,
)
from smartpubsub.testbed.processes import Launcher, Process, ProcessError
from smartpubsub.testbed.timeline import Timeline


@dataclass(slots=True, eq=False)
class Member:
    """A worker, and what is known of it."""

    process: Process
    nodes: tuple[int, ...]
    before: Usage | None = None
    """What it had used before it had nodes."""
    cpu_s: float = 0.0
    rss_mb_max: float = 0.0
    killed_us: int | None = None
    has_ended: trio.Event = field(default_factory=trio.Event)
    """Whether it has told everything."""

    def take(self, usage: Usage) -> None:
        """The process has told what it has used by now."""
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
    ) -> None:
        self.members: list[Member] = []
        """All that there have ever been."""
        self._launcher = launcher
        self._setup = setup
        self._nursery = nursery
        self._listen = listen
        self._timeline = Timeline(self._on_note)
        self._member_of: dict[int, Member] = {}
        """Where nodes run that are up, or about to be."""
        self._starts: dict[int, int] = {}
        self._ports: dict[int, int] = {}
        self._is_ending = False
        self._changing = trio.Lock()
        """Starting a process takes a while on a busy machine, and nobody starts two for a node."""

    # --- what can be done ---

    async def start(self, places: Iterable[Sequence[int]]) -> None:
        """Start nodes, those of each place in one process."""
        for nodes in places:
            await self._start(tuple(nodes), is_shared=len(nodes) > 1)

    async def crash(self, node: int, *, with_storage: bool = False) -> None:
        """Kill the process of a node that has one for itself, if it is up."""
        async with self._changing:
            member = self._member_of.pop(node, None)
            if member is None:
                return
            assert len(member.nodes) == 1
            member.killed_us = self._setup.now_us()
            await self._launcher.kill(member.process)
            if with_storage:
                shutil.rmtree(self._setup.folder_of(node), ignore_errors=True)

    async def restart(self, node: int) -> None:
        """Start a node that has crashed again, with what it has kept and where it was."""
        async with self._changing:
            if not self.is_up(node):
                await self._start((node,), is_shared=False)

    def is_up(self, node: int) -> bool:
        """Whether a node runs, or is about to."""
        return node in self._member_of

    async def tell(self, command: Join | Act) -> None:
        """Have a node do something."""
        node = command.node if isinstance(command, Join) else command.action.node
        await self._member_of[node].process.send(command)

    async def tell_all(self, command: Command) -> None:
        """Have all processes do something."""
        for member in dict.fromkeys(self._member_of.values()):
            await member.process.send(command)

    async def tell_ports(self) -> None:
        """Have all processes know who listens where."""
        await self.tell_all(Know({port: node for node, port in self._ports.items()}))

    async def end(self) -> None:
        """Have all processes tell what is left to tell, and end."""
        self._is_ending = True
        await self.tell_all(End())
        for member in self.members:
            await member.has_ended.wait()

    def close(self) -> None:
        """Let go of all processes, which then end."""
        self._is_ending = True
        for member in self.members:
            member.process.close()

    # --- processes ---

    async def _start(self, nodes: tuple[int, ...], *, is_shared: bool) -> None:
        setup = replace(self._setup, is_shared=is_shared)
        since_us = self._setup.now_us()
        member = Member(await self._launcher.launch(setup), nodes)
        self._timeline.open(member, since_us)
        self.members.append(member)
        self._nursery.start_soon(self._follow, member)
        for node in nodes:
            self._member_of[node] = member
            start = self._starts.get(node, 0)
            self._starts[node] = start + 1
            port = self._ports.get(node, 0)
            await member.process.send(StartNode(node, start, port))
        if self._ports:
            await self.tell_ports()

    async def _follow(self, member: Member) -> None:
        while (report := await member.process.next_report()) is not None:
            member.take(report.usage)
            notes, until_us = report.notes, report.until_us
            if member.killed_us is not None:
                # It was killed and did not know it yet; all that it did was before.
                notes = [n._replace(at_us=min(n.at_us, member.killed_us)) for n in notes]
                until_us = min(until_us, member.killed_us)
            self._timeline.add(member, until_us, notes)
            self._timeline.advance(self._setup.now_us())
        if member.killed_us is not None:
            self._timeline.put(Note(member.killed_us, member.nodes[0], Struck("crash")))
        elif not self._is_ending:
            raise ProcessError(
                f"the process of {_named(member.nodes)} has ended; look above for what it said"
            )
        self._timeline.close(member)
        self._timeline.advance(self._setup.now_us())
        member.has_ended.set()

    def _on_note(self, note: Note) -> None:
        if isinstance(note.value, Up):
            # Its address is /ip4/127.0.0.1/tcp/PORT.
            self._ports[note.node] = int.from_bytes(note.value.contact.addresses[0][-2:], "big")
        self._listen(note)


def _named(nodes: Sequence[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]} to {nodes[-1]}"
