"""A group, as an application uses it.

    group = node.group("apple/france/price[0,1]")
    await group.create()
    await group.publish("apple/france/price=0.5", b"...")

and elsewhere

    for found in await node.search_groups("apple/price[0,0.5]"):
        async with node.group(found.predicate, found.owner).join("apple/price[0,0.5]") as events:
            async for event in events: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from smartpubsub.node.api.choices import (
    ACKNOWLEDGE_S_MAX,
    BUFFER_COUNT_MAX,
    Overflow,
    OverflowName,
    Wait,
    WaitName,
    choice,
)
from smartpubsub.node.api.listing import Accept, FoundGroup, KnownGroup
from smartpubsub.node.api.payloads import NOT_GIVEN, Serializer, payload_of
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscription import EventStream, ReadOptions, read_options
from smartpubsub.node.errors import NodeError, NotOwnerError
from smartpubsub.predicates import Predicate


class GroupsPort(Protocol):
    """The groups of a node."""

    async def create(
        self, predicate: Predicate, *, advertised: bool, private: bool, accept: Accept | None
    ) -> None:
        """Create a group, and wait until it is open."""
        ...

    async def advertise(self, predicate: Predicate) -> None:
        """Advertise a group of the node."""
        ...

    async def invite(self, predicate: Predicate, peer: str) -> bytes:
        """Make an invitation for a peer to a private group of the node."""
        ...

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
        ...

    def membership(
        self,
        group: Predicate,
        owner: str,
        wanted: Predicate,
        options: ReadOptions,
        *,
        invitation: bytes,
        everywhere: bool,
    ) -> EventStream:
        """Make a membership in a group."""
        ...

    async def close(self, predicate: Predicate) -> None:
        """End a group of the node."""
        ...

    async def leave(self, group: Predicate, owner: str | None) -> int:
        """End all memberships in a group; return how many there were."""
        ...

    async def known(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of, each once."""
        ...

    async def search(self, predicate: Predicate) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        ...


@dataclass(frozen=True)
class Group:
    """A group: its predicate and its owner; None stands for the node itself."""

    _groups: GroupsPort = field(repr=False)
    _read: Callable[[Predicate | str], Predicate] = field(repr=False, compare=False)
    _serializer: Serializer = field(repr=False, compare=False)
    predicate: Predicate
    owner: str | None

    async def create(
        self,
        *,
        advertised: bool = True,
        private: bool = False,
        accept: Accept | None = None,
    ) -> Group:
        """Create it, and wait until it is open.

        A private group is joined by invitation only. `accept` decides about each request to join,
        as long as the node or the client runs; after that, the node refuses new members. If the
        group exists, its options have to be the same.
        """
        self._must_be_own("create")
        await self._groups.create(
            self.predicate, advertised=advertised and not private, private=private, accept=accept
        )
        return self

    async def advertise(self) -> None:
        """Advertise it, again if it is advertised already."""
        self._must_be_own("advertise")
        await self._groups.advertise(self.predicate)

    async def end(self) -> None:
        """End it, once all members have its events.

        The node tells the members at once; a member that it does not reach learns it when it renews
        its membership, within 15 minutes. Searches find the group for up to half an hour more.
        """
        self._must_be_own("end")
        await self._groups.close(self.predicate)

    async def invite(self, peer_id: str) -> bytes:
        """Make an invitation for a peer."""
        self._must_be_own("invite to")
        return await self._groups.invite(self.predicate, peer_id)

    async def publish(
        self,
        event: Predicate | str,
        payload: bytes = b"",
        *,
        text: str | None = None,
        json: Any = NOT_GIVEN,
        value: Any = NOT_GIVEN,
        wait: Wait | WaitName = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        everywhere: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Publish in it; `wait` refers to the members that want the event and can be reached.

        The payload is as in `NodeInterface.publish`. With `everywhere` subscribers outside of the
        group get the event too; a subscriber that is also a member gets it once. `key` is as in
        `NodeInterface.publish`; the keys of each group are its own.
        """
        self._must_be_own("publish in")
        return await self._groups.publish(
            self.predicate,
            self._read(event),
            payload_of(payload, text, json, value, self._serializer),
            choice(Wait, wait, "wait"),
            deadline_s,
            key,
            everywhere=everywhere,
        )

    def join(
        self,
        wanted: Predicate | str | None = None,
        *,
        invitation: bytes = b"",
        everywhere: bool = False,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | OverflowName = Overflow.DROP_OLDEST,
    ) -> EventStream:
        """Make a membership, which begins when it is entered as a context manager.

        Entering waits for the owner's answer, up to `deadline_s`. With `everywhere`, events from
        outside of the group come as well, and each event comes once although it may come by both.
        """
        if self.owner is None:
            raise NodeError(
                f"name the owner of the group {self.predicate}: node.group(..., owner=...)"
            )
        options = read_options(
            buffer_count_max=buffer_count_max, overflow=overflow, deadline_s=deadline_s
        )
        return self._groups.membership(
            self.predicate,
            self.owner,
            self.predicate if wanted is None else self._read(wanted),
            options,
            invitation=invitation,
            everywhere=everywhere,
        )

    async def leave(self) -> int:
        """End all memberships of the node in it; return how many there were."""
        return await self._groups.leave(self.predicate, self.owner)

    def _must_be_own(self, what: str) -> None:
        if self.owner is not None:
            raise NotOwnerError(
                f"only the owner can {what} a group; {self.predicate} has another owner"
            )
