"""A group on a live node, as an application uses it.

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
from dataclasses import dataclass

from smartpubsub.node.api.arrivals import BUFFER_COUNT_MAX, Overflow, Subscription
from smartpubsub.node.api.calls import ACKNOWLEDGE_S_MAX, Wait
from smartpubsub.node.api.choices import at_least_one, choice
from smartpubsub.node.api.groups import Accept, Groups, Membership
from smartpubsub.node.api.publishing import as_payload
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.errors import NodeError, NotOwnerError
from smartpubsub.node.transport.contacts import contact_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import GroupId


@dataclass(frozen=True)
class Group:
    """A group: its predicate and its owner; None is this node."""

    _groups: Groups
    _read: Callable[[Predicate | str], Predicate]
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

        `accept` decides about each request to join; a private group is joined by invitation only.
        If the group exists, its options have to be the same.
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

    def invite(self, peer_id: str) -> bytes:
        """Make an invitation for a peer."""
        self._must_be_own("invite to")
        return self._groups.invite(self.predicate, peer_id)

    async def publish(
        self,
        event: Predicate | str,
        payload: bytes = b"",
        *,
        wait: Wait | str = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        everywhere: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Publish in it; `wait` refers to the members that want the event and can be reached.

        With `everywhere` subscribers outside of the group get the event too; a subscriber that is
        also a member gets it once. `key` is as in `Node.publish`; the keys of each group are its
        own.
        """
        self._must_be_own("publish in")
        return await self._groups.publish(
            self.predicate,
            self._read(event),
            as_payload(payload),
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
        beside: Subscription | None = None,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | str = Overflow.DROP_OLDEST,
    ) -> Membership:
        """Make a membership, which begins when it is entered as a context manager.

        Entering waits for the owner's answer, up to `deadline_s`. With `beside`, events go to that
        subscription, and each event comes once although it may come by both.
        """
        if self.owner is None:
            raise NodeError(
                f"name the owner of the group {self.predicate}: node.group(..., owner=...)"
            )
        id = GroupId(contact_of(self.owner).peer, self.predicate)
        return Membership(
            self._groups,
            id,
            self.owner,
            self.predicate if wanted is None else self._read(wanted),
            invitation=invitation,
            beside=beside,
            deadline_s=deadline_s,
            buffer_count_max=at_least_one(buffer_count_max, "buffer_count_max"),
            overflow=choice(Overflow, overflow, "overflow"),
        )

    async def leave(self) -> int:
        """End all memberships of this node in it; return how many there were."""
        return await self._groups.leave(self.predicate, self.owner)

    def _must_be_own(self, what: str) -> None:
        if self.owner is not None:
            raise NotOwnerError(
                f"only the owner can {what} a group; {self.predicate} has another owner"
            )
