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
from smartpubsub.protocols.fastdelivery.parts import GroupId


@dataclass(frozen=True)
class Group:
    """A group by its name: the predicate, and who owns it, this node if nobody is named."""

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
        """Own it; events can go out when this is done.

        Whoever wants to join is shown to `accept`; a private group is joined by invitation only.
        A group that is there already has to be as private and as advertised as is said here.
        """
        self._must_be_own("create")
        await self._groups.create(
            self.predicate, advertised=advertised and not private, private=private, accept=accept
        )
        return self

    async def advertise(self) -> None:
        """Put it on the boards, if it is not there yet, or once more."""
        self._must_be_own("advertise")
        await self._groups.advertise(self.predicate)

    def invite(self, peer_id: str) -> bytes:
        """An invitation for a peer, with which it can join."""
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
    ) -> Receipt:
        """Publish in it; the wait is for all who want the event and can be reached.

        If it is for everywhere, those too get it who have subscribed without a group, and whoever
        does both gets one event.
        """
        self._must_be_own("publish in")
        return await self._groups.publish(
            self.predicate,
            self._read(event),
            as_payload(payload),
            choice(Wait, wait, "wait"),
            deadline_s,
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
        """Be in it while this is entered as a context manager, for the events that are wanted.

        It is entered when the owner has answered, which has to be in time.
        With another subscription beside it, events go there, and each event comes once although it
        may come by both.
        """
        if self.owner is None:
            raise NodeError(f"say who owns the group {self.predicate}: node.group(..., owner=...)")
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
        """End all memberships in it that this node has; how many there were."""
        return await self._groups.leave(self.predicate, self.owner)

    def _must_be_own(self, what: str) -> None:
        if self.owner is not None:
            raise NotOwnerError(f"only the owner can {what} a group; {self.predicate} is another's")
