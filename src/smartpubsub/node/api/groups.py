"""The groups that a node owns, and those that it is a member of."""

from __future__ import annotations

import logging

import trio

from smartpubsub.node.api.arrivals import Subscription, must_be_open
from smartpubsub.node.api.calls import Call
from smartpubsub.node.api.choices import ACKNOWLEDGE_S_MAX, Wait
from smartpubsub.node.api.event_records import Content, Destination
from smartpubsub.node.api.events import Event
from smartpubsub.node.api.listing import Accept, FoundGroup, JoinRequest, KnownGroup, decided
from smartpubsub.node.api.lone_errors import lone_errors
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.publishing import Publishing
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscribing import Subscribing, stores
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import EventRefusedError, LimitError, NodeError, NotOwnerError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.storage.kept import Change, KeptQueue
from smartpubsub.node.transport.contacts import contact_of, text_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.group import Contract, accept_all
from smartpubsub.protocols.fastdelivery.messages import GroupId, Notice, Request
from smartpubsub.protocols.fastdelivery.results import (
    GroupOpened,
    GroupRefused,
    JoinRefused,
    NotAdvertised,
    NotInForce,
    Overloaded,
    SearchResult,
)
from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Subscription as Wanted
from smartpubsub.protocols.pubsub import SubscriptionState
from smartpubsub.seam import Effect

GROUP = "group"
"""The kind of destination of an event in a group."""

_log = logging.getLogger(__name__)


class Membership(Subscription):
    """A subscription to a group, and on request a second one to events from outside of it."""

    def __init__(
        self,
        groups: Groups,
        group: GroupId,
        owner: str,
        wanted: Predicate,
        options: ReadOptions,
        *,
        invitation: bytes,
        beside: Subscription | None,
        serializer: Serializer,
    ) -> None:
        super().__init__(
            groups,
            wanted,
            buffer_count_max=options.buffer_count_max,
            overflow=options.overflow,
            serializer=serializer,
        )
        self.group = group
        self.owner = owner
        self.invitation = invitation
        self.beside = beside
        """The subscription that the events go to."""
        self.deadline_s = options.deadline_s
        """How long to wait for the owner's answer."""

    async def open(self) -> None:
        """Begin; both subscriptions or none."""
        if self.beside is None:
            await super().open()
            return
        try:
            with lone_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(super().open)
                    nursery.start_soon(self.beside.open)
        except BaseException:
            with trio.CancelScope(shield=True):  # It takes a limited time.
                await self.close(is_done=False)
            raise

    async def close(self, *, is_done: bool = True) -> None:
        """Leave the group."""
        if self.beside is not None:
            await self.beside.close(is_done=is_done)
        await super().close(is_done=is_done)

    async def _next(self) -> Event | None:
        if self.beside is None:
            return await super()._next()
        event = await self.beside.next()
        self.dropped = self.beside.dropped
        return event

    async def taken(self, id: str) -> None:
        """Acknowledge an event, and all before it."""
        if self.beside is None:
            await super().taken(id)
        else:
            await self.beside.taken(id)

    @property
    def queue(self) -> KeptQueue | None:
        """The queue on disk of the subscription that the events go to."""
        return super().queue if self.beside is None else self.beside.queue

    def put(self, event: Event) -> Event | None:
        """Queue an event, in the other subscription if there is one; return a dropped one."""
        return super().put(event) if self.beside is None else self.beside.put(event)

    def fail(self, problem: NodeError) -> None:
        """End the membership; the reader gets an error after the events that wait."""
        super().fail(problem)
        if self.beside is not None:
            self.beside.fail(problem)

    def on_stored(self, id: str) -> None:
        """Wake the reader of the subscription that the event went to."""
        if self.beside is not None:
            self.beside.on_stored(id)
        else:
            super().on_stored(id)


class Groups:
    """The groups that a node owns, and those that it is a member of."""

    def __init__(
        self,
        engine: Engine,
        subscribing: Subscribing,
        publishing: Publishing,
        serializer: Serializer,
    ) -> None:
        self._engine = engine
        self._subscribing = subscribing
        self._publishing = publishing
        publishing.senders[GROUP] = self._send
        publishing.sharing[GROUP] = None
        self._serializer = serializer
        self._memberships: dict[int, Membership] = {}
        self._found: dict[int, tuple[Notice, ...]] = {}
        """What the searches under way have found, by number."""
        self._last_search = 0
        self._contracts: dict[Predicate, Contract] = {}
        """The functions that decide about requests to join this node's groups."""
        engine.on_news.append(self._on_news)
        engine.on_restart.append(self._restore)

    def _restore(self, now: int) -> list[Effect]:
        """Give a restarted core what it has not stored."""
        self._engine.calls.interrupt(("group", "search"))
        fast, effects = self._engine.fast, list[Effect]()
        for predicate, contract in self._contracts.items():
            if group := fast.groups.get(predicate):
                properties = {"is_advertised": group.is_advertised, "is_private": group.is_private}
                effects += fast.create_group(predicate, now, contract=contract, **properties)
        for membership in self._memberships.values():
            effects += self._join(membership, now)
        return effects

    # --- owning ---

    async def create(
        self, predicate: Predicate, *, advertised: bool, private: bool, accept: Accept | None
    ) -> None:
        """Create a group, and wait until it is open."""
        contract = accept_all if accept is None else _contract(accept)
        call = Call()

        def create(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            self._engine.calls.expect("group", predicate, call)
            self._contracts[predicate] = contract
            effects = self._engine.fast.create_group(
                predicate,
                now,
                is_advertised=advertised,
                is_private=private,
                contract=contract,
            )
            return None, effects

        try:
            with call.limited(f"the group {predicate}", ACKNOWLEDGE_S_MAX):
                await self._engine.host.call(create)
                await call.done.wait()
        finally:
            self._engine.calls.forget("group", predicate, call)

    async def advertise(self, predicate: Predicate) -> None:
        """Advertise a group of this node."""
        group = self._engine.fast.groups.get(predicate)
        if group is None:
            raise NotOwnerError(f"this node owns no group {predicate}; create it first")
        if group.is_private:
            raise NodeError(
                f"the group {predicate} is private, and cannot be advertised; invite its members"
            )

        def advertise(now: int) -> list[Effect]:
            return self._engine.fast.advertise(predicate, now)

        await self._engine.host.do(advertise)

    async def close(self, predicate: Predicate) -> None:
        """End a group of this node."""
        if predicate not in self._engine.fast.groups:
            raise NotOwnerError(f"this node owns no group {predicate}; group list shows its groups")
        problem = await self._engine.host.call(
            lambda now: self._engine.fast.end_group(predicate, now)
        )
        if problem:
            raise NodeError(f"the group {predicate} cannot end: {problem}; try again later")
        self._contracts.pop(predicate, None)

    async def invite(self, predicate: Predicate, peer: str) -> bytes:
        """Make an invitation for a peer to a private group of this node."""
        group = self._engine.fast.groups.get(predicate)
        if group is None:
            raise NotOwnerError(f"this node owns no group {predicate}; only its owner invites")
        if not group.is_private:
            raise NodeError(
                f"the group {predicate} is not private: peers join it without an invitation;"
                " create a private group to choose its members"
            )
        return self._engine.fast.invite(predicate, contact_of(peer).peer)

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
        """Publish in a group of this node, and outside of it too with `everywhere`."""
        destination = Destination(GROUP, str(group), everywhere=everywhere)
        content = Content(event, payload, destination)
        return await self._publishing.send(content, wait, deadline_s, key)

    def _send(
        self, publication: Publication, destination: Destination, now: int, wants_all: bool
    ) -> list[Effect]:
        core, fast = self._engine.core, self._engine.fast
        name = destination.name
        group = Predicate.parse(name, attributes_max=len(name))
        effects = fast.publish_in(group, publication, now, wants_all=wants_all)
        is_owner = group in fast.groups and group.matches(publication.predicate)
        if destination.everywhere and is_owner and core.pubsub is not fast:
            effects += core.pubsub.publish(publication, now)
        return effects

    async def known(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of, each once."""
        must_be_open(self._engine.is_running)
        own = peer_text(self._engine.host.own.peer)
        owned = [
            KnownGroup(
                group.predicate,
                own,
                is_own=True,
                is_private=group.is_private,
                is_advertised=group.is_advertised,
                member_count=len(group.requests),
            )
            for group in self._engine.fast.groups.values()
        ]
        joined = dict.fromkeys(membership.group for membership in self._memberships.values())
        return owned + [
            KnownGroup(group.predicate, peer_text(group.owner), is_own=False) for group in joined
        ]

    # --- searching ---

    async def search(self, predicate: Predicate) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        call = Call()
        self._last_search += 1
        number = self._last_search

        def search(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            self._found[number] = ()
            self._engine.calls.expect("search", number, call)
            return None, self._engine.fast.search(predicate, number, now)

        try:
            with call.limited(f"the search for {predicate}", ACKNOWLEDGE_S_MAX):
                await self._engine.host.call(search)
                await call.done.wait()
            return [_found(notice) for notice in self._found.pop(number)]
        finally:
            self._engine.calls.forget("search", number)
            self._found.pop(number, None)

    # --- being in groups ---

    def membership(
        self,
        group: Predicate,
        owner: str,
        wanted: Predicate,
        options: ReadOptions,
        *,
        invitation: bytes,
        everywhere: bool,
    ) -> Membership:
        """Make a membership in a group."""
        beside = self._subscribing.new(wanted, options, self._serializer) if everywhere else None
        return Membership(
            self,
            GroupId(contact_of(owner).peer, group),
            owner,
            wanted,
            options,
            invitation=invitation,
            beside=beside,
            serializer=self._serializer,
        )

    async def open(self, subscription: Subscription) -> None:
        """Join a group, and wait for the owner's answer."""
        assert isinstance(subscription, Membership)
        membership = subscription
        call = Call()

        def join(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            number = self._engine.core.new_number()
            changes = list[Change]()
            queue: KeptQueue | None = None
            if membership.waits_on_disk and membership.beside is None:
                queue, changes = self._engine.queues.create(number, is_kept=False)
            membership.begin(number, queue)
            self._memberships[number] = membership
            self._subscribing.register(number, membership)
            self._engine.calls.expect("subscribe", number, call)
            return None, [*stores(changes), *self._join(membership, now)]

        def late() -> str:
            return (
                f"the owner of the group {membership.group.predicate} has not answered within"
                f" {membership.deadline_s:g} seconds; check that its node runs, and can be reached"
                f" at {membership.owner}"
            )

        if membership.beside is not None:
            membership.beside.share()
        try:
            what = f"joining {membership.group.predicate}"
            with call.limited(what, membership.deadline_s, late):
                await self._engine.host.call(join)
                await call.done.wait()
        except BaseException:  # The application cannot end a subscription that it has not entered.
            await self.end(membership)
            raise

    def _join(self, membership: Membership, now: int) -> list[Effect]:
        assert membership.number is not None
        owner, wanted = (
            contact_of(membership.owner),
            Wanted(membership.number, membership.predicate),
        )
        group, invitation = membership.group.predicate, membership.invitation
        return self._engine.fast.join_group(wanted, owner, group, now, invitation)

    async def end(self, subscription: Subscription) -> None:
        """Leave a group."""
        number = subscription.number
        if number is None or self._memberships.pop(number, None) is None:
            return
        self._subscribing.unregister(number)
        subscription.finish()
        self._engine.calls.forget("subscribe", number)

        def unsubscribe(now: int) -> list[Effect]:
            effects = self._engine.fast.unsubscribe(number, now)
            return [*effects, *stores(self._engine.queues.remove(number))]

        await self._engine.have_ended(unsubscribe)

    async def take(self, subscription: Subscription, id: str) -> None:
        """Remove an event, and all before it, from the queue of a membership."""
        await self._subscribing.take(subscription, id)

    async def leave(self, group: Predicate, owner: str | None) -> int:
        """End all memberships in a group; return how many there were."""
        peer = None if owner is None else contact_of(owner).peer
        left = [
            membership
            for membership in self._memberships.values()
            if membership.group.predicate == group and peer in (None, membership.group.owner)
        ]
        for membership in left:
            await self.end(membership)
        return len(left)

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """Report how far joining has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        return self._engine.fast.state_of(subscription.number, self._engine.host.clock.now())

    def _on_news(self, item: object) -> None:
        calls = self._engine.calls
        match item:
            case GroupOpened(group):
                calls.acknowledge("group", group.predicate)
            case GroupRefused(group, reason):
                calls.refuse("group", group.predicate, reason)
                fields = {"group": group.predicate, "reason": reason}
                _log.warning("group refused", extra={"fields": fields})
            case NotAdvertised(group, reason):
                calls.refuse("group", group.predicate, reason)
                fields = {"group": group.predicate, "reason": reason}
                _log.warning("group not advertised", extra={"fields": fields})
            case SearchResult(number, notices, problem):
                if number in self._found:  # The caller may have stopped waiting.
                    self._found[number] = notices
                if problem:
                    calls.refuse("search", number, problem)
                calls.acknowledge("search", number)
            case NotInForce(subscription, reason):
                calls.refuse("subscribe", subscription.number, reason, LimitError)
                fields = {"subscription": subscription.predicate, "reason": reason}
                _log.warning("subscription not in force", extra={"fields": fields})
            case JoinRefused(subscription, group, reason):
                self._on_join_refused(subscription.number, group, reason)
                fields = {"group": group.predicate, "reason": reason}
                _log.warning("join refused", extra={"fields": fields})
            case Overloaded(group, region, served):
                fields = {"group": group.predicate, "region": region, "served": served}
                _log.warning("no member of a region can help", extra={"fields": fields})

    def _on_join_refused(self, number: int, group: GroupId, reason: str) -> None:
        """End the membership that an owner has refused."""
        membership = self._memberships.get(number)
        if membership is not None:
            # The application gets the error when it reads the next event.
            problem = f"the owner of the group {group.predicate} has ended the membership: {reason}"
            membership.fail(EventRefusedError(problem))
            self._engine.calls.refuse("subscribe", number, reason)


def _found(notice: Notice) -> FoundGroup:
    contact = notice.contact
    return FoundGroup(text_of(contact.peer, *contact.addresses[:1]), notice.predicate)


def _join_request(request: Request) -> JoinRequest:
    peer = peer_text(request.contact.peer)
    return JoinRequest(
        peer, request.predicates, request.region, request.capacity, request.signature
    )


def _contract(accept: Accept) -> Contract:
    return lambda request: decided(accept, _join_request(request))
