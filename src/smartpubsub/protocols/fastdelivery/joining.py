"""How a node becomes a member: it searches the boards, and joins the groups that it finds.

A search lasts: boards tell owners who waits for groups like theirs, and owners tell those. A
subscription is in force when all that keep the board know of it and all owners found there have
taken it; from then on no group that is found by it can begin without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Answer,
    Done,
    Got,
    GroupId,
    Invite,
    Join,
    Joined,
    Notice,
    Notify,
    Unwatch,
    Working,
)
from smartpubsub.protocols.fastdelivery.searching import Inquiry
from smartpubsub.protocols.fastdelivery.shapes import finds
from smartpubsub.protocols.fastdelivery.signatures import is_notice_signed, signed_request
from smartpubsub.protocols.fastdelivery.told import JoinRefused, NotInForce
from smartpubsub.protocols.pubsub import (
    Subscribed,
    Subscription,
    SubscriptionState,
    Unsubscribed,
)

VERSION_BITS = 28
"""What a later incarnation says is newer than all that earlier ones have said."""


@dataclass(slots=True, eq=False)
class Wish:
    """A subscription, and how far it has come."""

    subscription: Subscription
    group: GroupId | None
    """The one group that it is for; any that is found if there is none."""
    owner: Contact | None = None
    invitation: bytes = b""
    inquiry: Inquiry | None = None
    is_found: bool = False
    waiting: dict[GroupId, None] = field(default_factory=dict)
    is_in_force: bool = False
    lacks_room: bool = False
    """Whether a limit keeps it from being in force, and it is to be tried again."""
    problem: str = ""
    """Which limit that was, as it was last told."""
    refusal: str = ""
    """Why an owner last did not want it."""
    searched_us: int = 0
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class Membership:
    """A group that this node is in, or wants to be in, or to leave."""

    contact: Contact
    predicate: Predicate
    invitation: bytes = b""
    wanted: dict[int, Predicate] = field(default_factory=dict)
    """By the numbers of subscriptions."""
    version: int = 0
    question: int | None = None
    is_answered: bool = False
    asked_us: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """What to do when the owner has answered, or does not."""

    @property
    def id(self) -> GroupId:
        """Which group it is."""
        return GroupId(self.contact.peer, self.predicate)


class Joining:
    """The subscriptions of this node, and the groups that it is in for them."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.wishes: dict[int, Wish] = {}
        self.memberships: dict[GroupId, Membership] = {}
        self._last_version = 0

    # --- subscribing ---

    def subscribe(self, subscription: Subscription) -> None:
        """Search for groups, and join all that there are and all that will be."""
        wish = self.wishes[subscription.number] = Wish(subscription, None)
        self._search(wish)

    def join(
        self, subscription: Subscription, owner: Contact, group: Predicate, invitation: bytes
    ) -> None:
        """Join one group, of which the owner and the predicate are known."""
        id = GroupId(owner.peer, group)
        wish = Wish(subscription, id, owner, invitation, is_found=True)
        self.wishes[subscription.number] = wish
        self._join(wish, owner, group, invitation)
        self._check(wish)

    def _search(self, wish: Wish) -> None:
        predicate = wish.subscription.predicate
        if wish.inquiry is not None:
            wish.inquiry.has_ended = True
        wish.searched_us = self._office.now
        wish.refusal = ""  # Who has refused it before is asked again.
        wish.inquiry = self._office.searching.inquire(
            predicate,
            partial(self._on_notice, wish),
            partial(self._on_found, wish),
            lambda: signed_request(self._office, (predicate,), self._next_version()),
        )

    def _on_found(self, wish: Wish, problem: str) -> None:
        if problem:
            self._lack_room(wish, problem)
            return
        wish.is_found = True
        self._check(wish)

    def on_invite(self, contact: Contact, number: int, part: Invite) -> None:
        """A group has come that one of the searches was for."""
        if not is_notice_signed(self._office, part.notice):
            self._office.refusals["notices"] += 1
            return
        for wish in list(self.wishes.values()):
            if wish.group is None and finds(wish.subscription.predicate, part.notice.predicate):
                self._on_notice(wish, part.notice)
        self._office.answer(contact.peer, number, Done())

    def _on_notice(self, wish: Wish, notice: Notice) -> None:
        self._join(wish, notice.contact, notice.predicate, b"")

    # --- memberships ---

    def is_member(self, id: GroupId) -> bool:
        """Whether this node is in a group, or about to be."""
        membership = self.memberships.get(id)
        return membership is not None and bool(membership.wanted)

    def _join(self, wish: Wish, owner: Contact, group: Predicate, invitation: bytes) -> None:
        office, id = self._office, GroupId(owner.peer, group)
        if owner.peer == office.own.peer:
            return  # What the node publishes itself it delivers itself.
        membership = self.memberships.get(id)
        if membership is None:
            if not self._make_room():
                office.refusals["memberships"] += 1
                limit = office.settings.group_count_max
                self._lack_room(
                    wish,
                    f"this node is in as many groups as it may be, {limit}, and not in {group};"
                    " leave one, or raise its limit group_count_max",
                )
                return
            membership = self.memberships[id] = Membership(owner, group)
        membership.contact = owner
        membership.invitation = invitation or membership.invitation
        number, predicate = wish.subscription
        if number in membership.wanted:
            return
        membership.wanted[number] = predicate
        wish.waiting[id] = None
        self._tell(membership, partial(self._on_taken, wish, membership))

    def _make_room(self) -> bool:
        """Whether there is room for another group, perhaps in the place of one that is being left.

        If its owner has not heard that, it does when its next event is not wanted.
        """
        if len(self.memberships) < self._office.settings.group_count_max:
            return True
        left = next((m for m in self.memberships.values() if not m.wanted), None)
        if left is None:
            return False
        del self.memberships[left.id]
        if left.question is not None:
            self._office.forget_question(left.question)
        self._conclude(left)
        return True

    def _lack_room(self, wish: Wish, problem: str) -> None:
        """A limit keeps a subscription from being in force, or from being so any longer."""
        wish.is_in_force = False
        wish.lacks_room = True
        if wish.problem != problem and not wish.has_ended:
            wish.problem = problem
            self._office.deliver(NotInForce(wish.subscription, problem))

    def _try_again(self, wish: Wish) -> None:
        """There may be room now for a subscription that there was none for."""
        wish.lacks_room = False
        if wish.owner is None or wish.group is None:
            wish.is_found = False
            self._search(wish)
        else:
            self._join(wish, wish.owner, wish.group.predicate, wish.invitation)
            self._check(wish)

    def _tell(self, membership: Membership, then: Callable[[], None] | None = None) -> None:
        """Tell an owner all that is wanted of its group."""
        office = self._office
        if then is not None:
            membership.waiting.append(then)
            membership.version = self._next_version()
        if membership.question is not None:
            office.forget_question(membership.question)
        membership.is_answered = False
        membership.asked_us = office.now
        wanted = tuple(dict.fromkeys(membership.wanted.values()))
        request = signed_request(office, wanted, membership.version)
        membership.question = office.ask(
            membership.contact.peer,
            Join(membership.predicate, request, membership.invitation),
            partial(self._on_joined, membership),
            partial(self._on_owner_silent, membership),
            us_max=office.settings.owner_us_max,
        )

    def _on_joined(self, membership: Membership, part: Answer) -> None:
        if not isinstance(part, Joined):
            return
        membership.question = None
        membership.is_answered = True
        if not membership.wanted or part.refusal:
            self.memberships.pop(membership.id, None)
        if part.refusal:
            for number in membership.wanted:
                self._refuse(self.wishes[number], membership.id, part.refusal)
        self._conclude(membership)

    def _refuse(self, wish: Wish, group: GroupId, reason: str) -> None:
        """An owner does not want a subscription, or not any longer."""
        wish.refusal = reason
        wish.waiting.pop(group, None)
        if wish.group is not None:
            wish.is_in_force = False  # There is nothing else that it could be in force by.
        self._office.deliver(JoinRefused(wish.subscription, group, reason))

    def _on_owner_silent(self, membership: Membership) -> None:
        # It is tried again now and then; and an owner that starts again asks the boards who waits.
        # By its search a subscription is in force without it, but not one for this group alone.
        membership.question = None
        self._conclude(membership)

    def _conclude(self, membership: Membership) -> None:
        waiting, membership.waiting = membership.waiting, []
        for then in waiting:
            then()

    def _on_taken(self, wish: Wish, membership: Membership) -> None:
        if wish.group is not None and not membership.is_answered and not wish.has_ended:
            membership.waiting.append(partial(self._on_taken, wish, membership))
            return
        wish.waiting.pop(membership.id, None)
        self._check(wish)

    def _check(self, wish: Wish) -> None:
        is_refused = wish.group is not None and bool(wish.refusal)
        if wish.is_in_force or wish.has_ended or wish.lacks_room or is_refused:
            return
        if wish.is_found and not wish.waiting:
            wish.is_in_force = True
            wish.problem = ""
            self._office.deliver(Subscribed(wish.subscription))

    def state_of(self, number: int) -> SubscriptionState:
        """How far a subscription has come."""
        wish = self.wishes.get(number)
        if wish is None:
            return SubscriptionState.PENDING
        if wish.is_in_force:
            return SubscriptionState.IN_PART if wish.refusal else SubscriptionState.IN_FORCE
        is_refused = wish.group is not None and bool(wish.refusal)
        return SubscriptionState.REFUSED if is_refused else SubscriptionState.PENDING

    # --- unsubscribing ---

    def unsubscribe(self, subscription: Subscription) -> None:
        """Leave all groups that were joined for a subscription, and search no more."""
        office, number = self._office, subscription.number
        wish = self.wishes.pop(number)
        wish.has_ended = True
        left = 1

        def on_done(_: object = None) -> None:
            nonlocal left
            left -= 1
            if not left:
                office.deliver(Unsubscribed(subscription))

        for membership in list(self.memberships.values()):
            if membership.wanted.pop(number, None) is not None:
                left += 1
                self._tell(membership, on_done)
        is_wanted_twice = any(
            other.group is None and other.subscription.predicate == subscription.predicate
            for other in self.wishes.values()
        )
        if wish.inquiry is not None:
            wish.inquiry.has_ended = True
            end = Unwatch(wish.inquiry.attribute, subscription.predicate)
            for keeper in () if is_wanted_twice else wish.inquiry.keepers:
                left += 1
                office.ask(keeper, end, on_done, on_done)
        on_done()

    # --- events ---

    def on_notify(self, contact: Contact, number: int, part: Notify) -> None:
        """An event has come."""
        office, event = self._office, part.event
        is_in_group = part.group.matches(event.predicate)
        if not is_in_group or not office.signing.is_signed(event):
            office.refusals["events"] += 1
            return
        is_member = self.is_member(GroupId(event.id.publisher, part.group))
        is_wanted = is_member or office.local.wants(event.predicate)
        got = partial(office.answer, contact.peer, number, Got(is_wanted))
        if not is_wanted:
            got()
        elif not office.turns.take(event, part.hops, part.prior, (contact.peer, number), got):
            office.answer(contact.peer, number, Working())

    # --- upkeep ---

    def tick(self) -> None:
        """Renew what is to be renewed, and try those again who have not answered."""
        office = self._office
        due_us = office.now - office.settings.renew_us
        for wish in self.wishes.values():
            if wish.lacks_room and self._make_room():
                self._try_again(wish)
            elif wish.group is None and wish.searched_us <= due_us:
                self._search(wish)
        for membership in list(self.memberships.values()):
            is_due = membership.asked_us <= due_us or not membership.is_answered
            if membership.question is not None or not is_due:
                continue
            if not membership.wanted and membership.asked_us <= due_us - office.settings.renew_us:
                del self.memberships[membership.id]
            else:
                self._tell(membership)

    def _next_version(self) -> int:
        self._last_version += 1
        return (self._office.incarnation << VERSION_BITS) + self._last_version
