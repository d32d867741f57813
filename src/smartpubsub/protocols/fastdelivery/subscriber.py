"""The subscriber's part: search directories, and join the groups that are found.

Searches are standing ones: keepers tell the owners of later groups which subscribers wait for them,
and owners tell the subscribers. A subscription is in force when all keepers of the directory know
its search and all owners that were found have answered. From then on it misses no event of a group
that its search finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import USER_SHARE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.delivery import GroupDelivery
from smartpubsub.protocols.fastdelivery.directory_client import GroupSearch, Inquiry
from smartpubsub.protocols.fastdelivery.messages import (
    VERSION_BITS,
    Answer,
    Got,
    GroupEnded,
    GroupId,
    GroupNotify,
    Invite,
    Join,
    Joined,
    Notice,
    RequestDone,
    ServedBy,
    Unwatch,
    Working,
)
from smartpubsub.protocols.fastdelivery.results import JoinRefused, NotInForce
from smartpubsub.protocols.fastdelivery.shapes import finds
from smartpubsub.protocols.pubsub import (
    Subscribed,
    Subscription,
    SubscriptionState,
    Unsubscribed,
)
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

HELPERS_MAX = 2
"""The current helper of a member, and the previous one, which may still bring events."""
SHARE_MIN = 100
"""A node may be in this many groups of one owner, however low its limit for all groups is."""
GROUP_ENDED = "its owner has ended the group"
ENDED_COUNT_MAX = 1_000
"""Of how many groups a node remembers how they were last ended."""


class Progress(Enum):
    """How far a subscription has come."""

    SEARCHING = "searching"
    JOINING = "joining"
    """All keepers have answered; some owners have not."""
    IN_FORCE = "in force"
    BLOCKED = "blocked"
    """A limit keeps it from being in force; the node tries again."""
    REFUSED = "refused"
    """The owner of the one group that it is for refuses it."""
    ENDED = "ended"


SUBSCRIPTION_TRANSITIONS: dict[tuple[Progress, str], Progress] = {
    (Progress.SEARCHING, "all keepers answer"): Progress.JOINING,
    (Progress.SEARCHING, "limit reached"): Progress.BLOCKED,
    (Progress.SEARCHING, "unsubscribe"): Progress.ENDED,
    (Progress.JOINING, "all owners answer"): Progress.IN_FORCE,
    (Progress.JOINING, "owner refuses"): Progress.REFUSED,
    (Progress.JOINING, "limit reached"): Progress.BLOCKED,
    (Progress.JOINING, "unsubscribe"): Progress.ENDED,
    (Progress.IN_FORCE, "owner refuses"): Progress.REFUSED,
    (Progress.IN_FORCE, "limit reached"): Progress.BLOCKED,
    (Progress.IN_FORCE, "unsubscribe"): Progress.ENDED,
    (Progress.BLOCKED, "search again"): Progress.SEARCHING,
    (Progress.BLOCKED, "join again"): Progress.JOINING,
    (Progress.BLOCKED, "unsubscribe"): Progress.ENDED,
    (Progress.REFUSED, "unsubscribe"): Progress.ENDED,
}


@dataclass(slots=True, eq=False)
class GroupSubscription:
    """A subscription, and how far it has come."""

    subscription: Subscription
    group: GroupId | None
    """The one group that it is for; None for all groups that its search finds."""
    owner: Contact | None = None
    invitation: bytes = b""
    progress: Progress = Progress.SEARCHING
    inquiry: Inquiry | None = None
    earlier_keepers: dict[Peer, bool] = field(default_factory=dict)
    """The keepers of the search before `inquiry`; they may still have it."""
    waiting: dict[GroupId, None] = field(default_factory=dict)
    """Groups whose owners have not answered."""
    problem: str = ""
    """The limit that the application was last told of."""
    refusal: str = ""
    """Why an owner has refused it since the last search."""
    searched_us: int = 0

    def move(self, trigger: str) -> None:
        """Go to the next state."""
        self.progress = SUBSCRIPTION_TRANSITIONS[self.progress, trigger]


@dataclass(slots=True, eq=False)
class GroupMembership:
    """A group that this node is a member of, or is joining or leaving."""

    contact: Contact
    predicate: Predicate
    invitation: bytes = b""
    wanted: dict[int, Predicate] = field(default_factory=dict)
    """By the numbers of subscriptions."""
    version: int = 0
    request: int | None = None
    """The number of the join request that is pending."""
    is_answered: bool = False
    """Whether the owner has answered the last request."""
    was_answered: bool = False
    """Whether the owner has ever answered."""
    asked_us: int = 0
    """When the node has last asked to join or to leave; not counting repeated requests to leave."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks for when the owner has answered, or has not in time."""
    helpers: dict[Peer, None] = field(default_factory=lambda: BoundedDict(HELPERS_MAX))
    """The helpers that the owner has named last."""

    def add_helper(self, helper: Peer) -> None:
        """Note a helper that the owner names; none if the owner serves the member itself."""
        if helper:
            self.helpers[helper] = None

    @property
    def id(self) -> GroupId:
        """The group's id."""
        return GroupId(self.contact.peer, self.predicate)


@dataclass(eq=False)
class GroupSubscriber(FastComponent):
    """The subscriptions of this node, and the groups that it is a member of for them."""

    _searches: GroupSearch
    _delivery: GroupDelivery
    _on_helped: Callable[[GroupId], None]
    """Called when a helper serves this node in a group."""

    def __post_init__(self) -> None:
        self._subscriptions: dict[int, GroupSubscription] = {}
        self._memberships: dict[GroupId, GroupMembership] = {}
        self._count_by_owner: Counter[Peer] = Counter()
        """The number of memberships in groups of each owner."""
        self._ended: dict[GroupId, int] = BoundedDict(ENDED_COUNT_MAX)
        """The number of the last message that ended each group; its owner may repeat it."""
        self._first_version = 0
        self._last_version = 0

    @property
    def membership_count(self) -> int:
        """How many groups this node is a member of, or is joining or leaving."""
        return len(self._memberships)

    def start(self, incarnation: int) -> None:
        """Number requests above those of earlier incarnations."""
        self._first_version = incarnation << VERSION_BITS

    # --- subscribing ---

    def subscribe(self, subscription: Subscription) -> None:
        """Search for groups, and join all that exist and all that are created later."""
        wanted = self._subscriptions[subscription.number] = GroupSubscription(subscription, None)
        self._search(wanted)

    def join(
        self, subscription: Subscription, owner: Contact, group: Predicate, invitation: bytes
    ) -> None:
        """Join one group whose owner is known."""
        id = GroupId(owner.peer, group)
        wanted = GroupSubscription(subscription, id, owner, invitation, Progress.JOINING)
        self._subscriptions[subscription.number] = wanted
        self._join(wanted, owner, group, invitation)
        self._conclude(wanted)

    def _search(self, wanted: GroupSubscription) -> None:
        predicate = wanted.subscription.predicate
        if wanted.inquiry is not None:
            self._searches.cancel(wanted.inquiry)
            wanted.earlier_keepers = wanted.inquiry.keepers or wanted.earlier_keepers
        wanted.searched_us = self._outbox.now
        wanted.refusal = ""  # Owners that have refused it are asked again.
        wanted.inquiry = self._searches.inquire(
            predicate,
            partial(self._on_notice, wanted),
            partial(self._on_found, wanted),
            lambda: self._signatures.request((predicate,), self._next_version()),
        )

    def _on_found(self, wanted: GroupSubscription, problem: str) -> None:
        if problem:
            self._block(wanted, problem)
            return
        if wanted.progress is Progress.SEARCHING:
            wanted.move("all keepers answer")
        self._conclude(wanted)

    def on_invite(self, contact: Contact, number: int, question: Invite) -> None:
        """Join a group that a standing search finds."""
        notice = question.notice
        if not self._signatures.is_advertisement_signed(notice):
            self._outbox.reject("advertisements")
            return
        for wanted in list(self._subscriptions.values()):
            if wanted.group is None and finds(wanted.subscription.predicate, notice.predicate):
                self._on_notice(wanted, notice)
        self._requests.answer(contact.peer, number, RequestDone())

    def _on_notice(self, wanted: GroupSubscription, notice: Notice) -> None:
        self._join(wanted, notice.contact, notice.predicate, b"")

    def owners(self) -> list[Peer]:
        """Return the owners of the groups that the node is in."""
        return [group.owner for group in self._memberships]

    # --- memberships ---

    def is_member(self, id: GroupId) -> bool:
        """Whether this node is a member of a group or is joining it."""
        membership = self._memberships.get(id)
        return membership is not None and bool(membership.wanted)

    def wants(self, id: GroupId, event: Predicate) -> bool:
        """Whether this node is a member of a group, or has a subscription for an event of it.

        A node that has just started has subscriptions and is no member yet.
        """
        return self.is_member(id) or self._delivery.wants(event, id)

    def is_helper(self, id: GroupId, peer: Peer) -> bool:
        """Whether the owner of a group has named a peer as the helper that serves this node."""
        membership = self._memberships.get(id)
        return membership is not None and peer in membership.helpers

    def is_helped(self, id: GroupId) -> bool:
        """Whether this node is a member of a group and a helper has served it."""
        return self.is_member(id) and bool(self._memberships[id].helpers)

    def owns_joined_group(self, peer: Peer) -> bool:
        """Whether this node is a member of a group of a peer, or is joining or leaving one."""
        return any(id.owner == peer for id in self._memberships)

    def on_served_by(self, contact: Contact, number: int, question: ServedBy) -> None:
        """Accept events of a group from a helper that its owner names."""
        membership = self._memberships[GroupId(contact.peer, question.group)]
        self._add_helper(membership, question.helper)
        self._requests.answer(contact.peer, number, RequestDone())

    def on_group_ended(self, contact: Contact, number: int, question: GroupEnded) -> None:
        """Leave a group that its owner has ended."""
        self._requests.answer(contact.peer, number, RequestDone())
        id = GroupId(contact.peer, question.group)
        membership = self._memberships.get(id)
        if membership is not None and number > self._ended.get(id, -1):
            self._ended[id] = number
            if membership.request is not None:
                self._requests.cancel(membership.request)
            self._on_joined(membership, Joined(GROUP_ENDED))

    def _join(
        self, wanted: GroupSubscription, owner: Contact, group: Predicate, invitation: bytes
    ) -> None:
        id = GroupId(owner.peer, group)
        if owner.peer == self._own.peer:
            return  # The node delivers its own events itself.
        membership = self._memberships.get(id)
        if membership is None:
            limit = self._settings.group_count_max
            share = max(limit // USER_SHARE, SHARE_MIN)
            problem = ""
            # Anyone can make thousands of groups that a search finds.
            if wanted.group is None and self._count_by_owner[owner.peer] >= share:
                problem = f"in {share} groups of one owner, of which it may be in no more"
            elif not self._make_room():
                problem = f"in as many groups as it may be, {limit}"
            if problem:
                self._outbox.reject("memberships")
                self._block(
                    wanted,
                    f"this node is {problem}, and not in {group};"
                    " leave one, or raise its limit group_count_max",
                )
                return
            membership = self._memberships[id] = GroupMembership(owner, group)
            self._count_by_owner[owner.peer] += 1
        membership.contact = owner
        membership.invitation = invitation or membership.invitation
        number, predicate = wanted.subscription
        if number in membership.wanted:
            return
        membership.wanted[number] = predicate
        wanted.waiting[id] = None
        self._send_request(membership, partial(self._on_owner_done, wanted, membership))

    def _make_room(self) -> bool:
        """Return whether there is room for a group; drop one that the node is leaving if need be.

        If its owner does not know yet, it learns that from the answer to its next event.
        """
        if len(self._memberships) < self._settings.group_count_max:
            return True
        left = next((m for m in self._memberships.values() if not m.wanted), None)
        if left is None:
            return False
        self._forget(left)
        if left.request is not None:
            self._requests.cancel(left.request)
        self._run_waiting(left)
        return True

    def _forget(self, membership: GroupMembership) -> None:
        if self._memberships.pop(membership.id, None) is not None:
            owner = membership.id.owner
            self._count_by_owner[owner] -= 1
            if not self._count_by_owner[owner]:
                del self._count_by_owner[owner]

    def _block(self, wanted: GroupSubscription, problem: str) -> None:
        """Report that a limit keeps a subscription from being in force."""
        if wanted.progress is not Progress.BLOCKED:
            wanted.move("limit reached")
        if wanted.problem != problem:
            wanted.problem = problem
            self._outbox.deliver(NotInForce(wanted.subscription, problem))

    def _try_again(self, wanted: GroupSubscription) -> None:
        """Retry a blocked subscription: there may be room now."""
        if wanted.owner is None or wanted.group is None:
            wanted.move("search again")
            self._search(wanted)
        else:
            wanted.move("join again")
            self._join(wanted, wanted.owner, wanted.group.predicate, wanted.invitation)
            self._conclude(wanted)

    def _send_request(
        self, membership: GroupMembership, then: Callable[[], None] | None = None
    ) -> None:
        """Send an owner all predicates that this node wants of its group."""
        if then is not None:
            membership.waiting.append(then)
            membership.version = self._next_version()
        if membership.request is not None:
            self._requests.cancel(membership.request)
        membership.is_answered = False
        if membership.wanted or then is not None:  # Else it left earlier, and repeats that.
            membership.asked_us = self._outbox.now
        predicates = tuple(dict.fromkeys(membership.wanted.values()))
        request = self._signatures.request(predicates, membership.version)
        membership.request = self._requests.ask(
            membership.contact.peer,
            Join(membership.predicate, request, membership.invitation),
            partial(self._on_joined, membership),
            partial(self._on_owner_silent, membership),
            us_max=self._settings.owner_us_max,
        )

    def _on_joined(self, membership: GroupMembership, answer: Answer) -> None:
        if not isinstance(answer, Joined):
            return
        membership.request = None
        is_first = not membership.was_answered
        membership.is_answered = membership.was_answered = True
        self._add_helper(membership, answer.helper)
        if is_first and self._first_version:  # A helper may have dropped events before the restart.
            self._on_helped(membership.id)
        if not membership.wanted or answer.refusal:
            self._forget(membership)
        if answer.refusal:
            for number in membership.wanted:
                self._refuse(self._subscriptions[number], membership.id, answer.refusal)
        self._run_waiting(membership)

    def _add_helper(self, membership: GroupMembership, helper: Peer) -> None:
        membership.add_helper(helper)
        if self.is_helped(membership.id):
            self._on_helped(membership.id)

    def _refuse(self, wanted: GroupSubscription, group: GroupId, reason: str) -> None:
        """Report that an owner refuses a subscription."""
        wanted.refusal = reason
        wanted.waiting.pop(group, None)
        if wanted.group is not None:
            wanted.move("owner refuses")
        self._outbox.deliver(JoinRefused(wanted.subscription, group, reason))

    def _on_owner_silent(self, membership: GroupMembership) -> None:
        # The node tries again from time to time, and a restarted owner asks the directories.
        # A search is in force without this owner; a subscription for this group alone is not.
        membership.request = None
        self._run_waiting(membership)

    def _run_waiting(self, membership: GroupMembership) -> None:
        waiting, membership.waiting = membership.waiting, []
        for then in waiting:
            then()

    def _on_owner_done(self, wanted: GroupSubscription, membership: GroupMembership) -> None:
        has_ended = wanted.progress is Progress.ENDED
        if wanted.group is not None and not membership.is_answered and not has_ended:
            membership.waiting.append(partial(self._on_owner_done, wanted, membership))
            return
        wanted.waiting.pop(membership.id, None)
        self._conclude(wanted)

    def _conclude(self, wanted: GroupSubscription) -> None:
        if wanted.progress is Progress.JOINING and not wanted.waiting:
            wanted.move("all owners answer")
            wanted.problem = ""
            self._outbox.deliver(Subscribed(wanted.subscription))

    def state_of(self, number: int) -> SubscriptionState:
        """Return how far a subscription has come."""
        wanted = self._subscriptions.get(number)
        if wanted is not None and wanted.progress is Progress.IN_FORCE:
            return SubscriptionState.IN_PART if wanted.refusal else SubscriptionState.IN_FORCE
        is_refused = wanted is not None and wanted.progress is Progress.REFUSED
        return SubscriptionState.REFUSED if is_refused else SubscriptionState.PENDING

    # --- unsubscribing ---

    def unsubscribe(self, subscription: Subscription) -> None:
        """Leave all groups that were joined for a subscription, and end its search."""
        number = subscription.number
        wanted = self._subscriptions.pop(number)
        wanted.move("unsubscribe")
        left = 1

        def on_done(_: object = None) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._outbox.deliver(Unsubscribed(subscription))

        for membership in list(self._memberships.values()):
            if membership.wanted.pop(number, None) is not None:
                left += 1
                self._send_request(membership, on_done)
        is_wanted_twice = any(
            other.group is None and other.subscription.predicate == subscription.predicate
            for other in self._subscriptions.values()
        )
        if wanted.inquiry is not None:
            self._searches.cancel(wanted.inquiry)
            end = Unwatch(wanted.inquiry.attribute, subscription.predicate)
            keepers = {**wanted.earlier_keepers, **wanted.inquiry.keepers}
            for keeper in () if is_wanted_twice else keepers:
                left += 1
                self._requests.ask(keeper, end, on_done, on_done)
        on_done()

    # --- events ---

    def on_notify(self, contact: Contact, number: int, question: GroupNotify) -> None:
        """Deliver an event in its order, and confirm it."""
        event = question.event
        id = GroupId(event.id.publisher, question.group)
        is_in_group = question.group.matches(event.predicate)
        if not is_in_group or not self._signatures.is_event_signed(event):
            self._outbox.reject("events")
            return
        is_wanted = self.wants(id, event.predicate)
        got = partial(self._requests.answer, contact.peer, number, Got(is_wanted))
        transmission = (contact.peer, number)
        if not is_wanted:
            got()
        elif not self._delivery.take(event, id, question.hops, question.prior, transmission, got):
            self._requests.answer(contact.peer, number, Working())

    # --- upkeep ---

    def tick(self) -> None:
        """Renew searches and memberships, and retry owners that have not answered."""
        due_us = self._outbox.now - self._settings.renew_us
        for wanted in self._subscriptions.values():
            if wanted.progress is Progress.BLOCKED and self._make_room():
                self._try_again(wanted)
            elif wanted.group is None and wanted.searched_us <= due_us:
                self._search(wanted)
        for membership in list(self._memberships.values()):
            is_due = membership.asked_us <= due_us or not membership.is_answered
            if membership.request is not None or not is_due:
                continue
            is_left = not membership.wanted
            if is_left and membership.asked_us <= due_us - self._settings.renew_us:
                self._forget(membership)
            else:
                self._send_request(membership)

    def _next_version(self) -> int:
        self._last_version += 1
        return self._first_version + self._last_version

    def check(self) -> None:
        """Assert that subscriptions and memberships agree."""
        assert len(self._memberships) <= self._settings.group_count_max
        assert self._count_by_owner == Counter(id.owner for id in self._memberships)
        for id, membership in self._memberships.items():
            assert membership.id == id
            assert set(membership.wanted) <= set(self._subscriptions)
            assert membership.version <= self._first_version + self._last_version
        for wanted in self._subscriptions.values():
            assert wanted.progress is not Progress.ENDED
            assert wanted.progress is not Progress.SEARCHING or wanted.group is None
            assert wanted.progress is not Progress.REFUSED or wanted.group is not None
            assert wanted.progress is not Progress.JOINING or wanted.waiting, "nothing to wait for"
