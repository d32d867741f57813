"""Audits: subscribers notice events that the tree has not brought, and get them from keepers.

A node on the way down a tree may drop an event and confirm it all the same. So the keepers of an
attribute (`keepers.py`) keep its events for some minutes, whichever shard carries them. The
rendezvous and its replicas have an event anyway; its publisher sends it to the other keepers. A
subscriber looks the keepers up itself, and asks some of them now and then for matching events that
it does not have. While none is missing, it asks less and less often.

A keeper that lies can only withhold events: publishers sign them. So one honest keeper is enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from smartpubsub.kademlia.blame import DROPPED, WITHHELD, Blame
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.randomness import jittered
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox, question_hash
from smartpubsub.protocols.scoutsubs.audit_keeper import KEPT_US, AuditKeeper
from smartpubsub.protocols.scoutsubs.convictions import Convictions
from smartpubsub.protocols.scoutsubs.dissemination import Dissemination
from smartpubsub.protocols.scoutsubs.duplicates import digest_of_id
from smartpubsub.protocols.scoutsubs.filters import Filters
from smartpubsub.protocols.scoutsubs.history import SKEW_US_MAX, place_of
from smartpubsub.protocols.scoutsubs.keepers import TreeKeepers
from smartpubsub.protocols.scoutsubs.local_delivery import LocalDelivery
from smartpubsub.protocols.scoutsubs.membership import TreeMembership
from smartpubsub.protocols.scoutsubs.messages import Audit, Audited, Missed, SignedAnswer
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import attribute_of, base_name, is_split
from smartpubsub.protocols.scoutsubs.timeouts import MS, ResponseTimes, backed_off
from smartpubsub.seam import Peer

SLACK_US = SECOND
"""By how much the times at which an event reaches keepers and subscribers may differ."""
FILTERS_MAX = 100
"""A node with more filters in a tree asks for all events of the tree."""
TRIES_MAX = 3
"""How often a node sends a question that a keeper does not answer. An audit may ask only one honest
keeper, and shows nothing without its answer."""
LEFT_OUT_MAX = 3
"""While links seem to be full, a node leaves out at most this many audits in a row. Up to the next
one, less time passes than keepers keep an event."""
BROUGHT_MAX = 1_000
UNAUDITED_MAX = 1_000
"""How many events a node remembers of a tree in which no subscription is in force yet."""
LATE_MAX = 20
EARLY_MAX = 1_000
ACCUSED_US = 10 * SECOND
"""A node accuses a keeper at most once in this time."""
BLAMED_TURNS = 4
"""Only one audit in this many may ask keepers that are blamed for leaving events out."""
HOPS = 4
"""About how many hops an event takes, up and down, to a subscriber."""
PUBLISHERS_MAX = 100
QUESTION_TIMER = "audit question"
TREES_MAX = 1_000
"""A node audits at most this many trees."""


class _Question(NamedTuple):
    """A question to a keeper: when it was first asked, and for events of which times."""

    part: Audit
    asked_us: int
    since_us: int
    until_us: int
    tries: int = 1


class _KeeperArrival(NamedTuple):
    """The earliest and the latest time at which an event can have reached a keeper.

    The keeper says how long ago that was when it answered, some time after the question.
    """

    first_us: int
    last_us: int


class _EarlyEvent(NamedTuple):
    """An event that a keeper has named and that the tree may still bring."""

    missed: Missed
    came: _KeeperArrival
    due_us: int
    """When it counts as missed."""


class _ReceivedEvent(NamedTuple):
    """An event that the tree or an audit has brought, and when."""

    id: EventId
    at_us: int
    is_owed: bool = True
    """Whether it is newer than the subscriptions that it matches."""


class _Delays(NamedTuple):
    """The delays from the creation of a publisher's events to their arrival.

    They compare two clocks, which may differ.
    """

    least_us: int
    last_us: int


@dataclass(slots=True)
class _AuditedTree:
    """An attribute's tree that this node has subscriptions in, with its shards."""

    interval_us: int
    began_us: int
    """Since when this node audits it."""
    since_us: dict[int, int] = field(default_factory=dict)
    """By subscription: since when it is in force; after a restart, since before it."""
    got: deque[_ReceivedEvent] = field(default_factory=deque)
    """The recent events."""
    asked: dict[Peer, _Question] = field(default_factory=dict)
    """The questions that keepers have not answered."""
    answered_us: dict[Peer, int] = field(default_factory=dict)
    """The time up to which each keeper has named all events that have reached it."""
    own_until_us: int = -1 << 62
    """The time up to which this node has looked through the events that it keeps itself."""
    turn: int = 0
    """How many audits there were."""
    is_alerted: bool = False
    """Whether something was missing at the last audit."""
    left_out: int = 0
    """How many audits in a row this node has left out because links seemed to be full."""
    has_answer: bool = False
    """Whether a keeper has answered since the last audit; if none has, links may be full."""
    grace_us: int = 0
    """How long the tree has to bring an event, if more than usual."""
    delays: BoundedDict[Peer, _Delays] = field(default_factory=lambda: BoundedDict(PUBLISHERS_MAX))
    """By publisher."""
    late_us: int = 0
    """How much longer some recent events took than others of their publisher."""
    brought: BoundedDict[EventId, Peer] = field(default_factory=lambda: BoundedDict(BROUGHT_MAX))
    """Events that audits have brought and the tree has not, and the blamed peer; empty for none."""
    answers: dict[Peer, tuple[SignedAnswer, _Question]] = field(default_factory=dict)
    """The last answer of each keeper; without evidence if it is not signed."""
    early: dict[EventId, _EarlyEvent] = field(default_factory=dict)
    late: deque[tuple[Publication, int]] = field(default_factory=lambda: deque(maxlen=LATE_MAX))
    """The last events that audits have brought, and when they reached a keeper."""
    accused_us: dict[Peer, int] = field(default_factory=dict)
    """When each keeper was last accused."""


@dataclass(eq=False)
class Auditor:
    """Asks the keepers of the trees that this node has subscriptions in."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _signing: Signing
    _detector: FailureDetector
    _times: ResponseTimes
    _blame: Blame
    _membership: TreeMembership
    _filters: Filters
    _delivery: LocalDelivery
    _dissemination: Dissemination
    _lookup: TreeKeepers
    _own_keeper: AuditKeeper
    _convictions: Convictions
    _persistence: Persistence
    _rng: Random

    def __post_init__(self) -> None:
        self._trees: dict[str, _AuditedTree] = {}
        self._unaudited: BoundedDict[str, deque[_ReceivedEvent]] = BoundedDict(TREES_MAX)
        """By tree in which no subscription is in force yet: its events since the first subscribe
        call."""
        self._last_number = 0
        self._deadlines: Deadlines[tuple[str, Peer]] = Deadlines(self._outbox, QUESTION_TIMER)
        """When to repeat the question to a keeper about a tree."""

    def __len__(self) -> int:
        return len(self._trees)

    # --- what to audit ---

    def on_in_force(self, number: int, tree: str) -> None:
        """Audit the tree of a subscription that is in force there, unless it has ended."""
        table = self._filters.tables.get(tree)
        if table is None or number not in table.own or not self._settings.has_audits:
            return
        if tree != base_name(tree):
            return  # The keepers of an attribute keep the events of all its shards.
        audited = self._trees.get(tree)
        if audited is None:
            if len(self._trees) >= TREES_MAX:
                self._outbox.reject("audited trees")
                return
            least_us, now = self._settings.audit_us_min, self._outbox.now
            audited = self._trees[tree] = _AuditedTree(least_us, now)
            audited.got.extend(self._unaudited.pop(tree, ()))
            self._set_timer(tree, audited)
        if number not in audited.since_us:
            audited.since_us[number] = self._in_force_since_us(number)

    def _in_force_since_us(self, number: int) -> int:
        """Since when a subscription is in force, also if the node has restarted since.

        The node may have missed events of that time that are promised to it. If its clock was set
        back and the host did not notice, any event that keepers still keep may be one of them.
        """
        now, since_us = self._outbox.now, self._persistence.take_since(number)
        if since_us is not None and since_us <= now:
            return since_us
        since_us = now if since_us is None else now - KEPT_US
        self._persistence.keep_since(number, since_us)
        return since_us

    def on_event(self, event: Publication, tree: str) -> None:
        """Note an event that the tree has brought."""
        audited, id = self._trees.get(base_name(tree)), event.id
        if audited is None:
            self._note_unaudited(id, base_name(tree))
            return
        audited.got.append(_ReceivedEvent(id, self._outbox.now))
        if event.created_us:
            self._measure(audited, event)
        if id in audited.brought:  # It was not lost: links are slow, and audits fill them further.
            blamed = audited.brought.pop(id)
            if blamed:
                self._blame.take_back(blamed, self._outbox.now)
            audited.grace_us = 2 * self._grace_us(audited)
            audited.is_alerted = False
            audited.interval_us = self._settings.audit_us_max

    def _note_unaudited(self, id: EventId, tree: str) -> None:
        """Note an event that has come before the first subscription is in force."""
        table = self._filters.tables.get(tree)
        if table is None or not table.own or not self._settings.has_audits:
            return
        got = self._unaudited.get(tree)
        if got is None:
            got = self._unaudited[tree] = deque(maxlen=UNAUDITED_MAX)
        got.append(_ReceivedEvent(id, self._outbox.now))

    def _measure(self, audited: _AuditedTree, event: Publication) -> None:
        """Note how much longer an event took than others of its publisher.

        Clocks may differ, so only the differences of times by the same clocks count.
        """
        delay_us, publisher = self._outbox.now - event.created_us, event.id.publisher
        before = audited.delays.get(publisher)
        least_us = delay_us if before is None else min(delay_us, before.least_us)
        audited.delays[publisher] = _Delays(least_us, delay_us)
        audited.late_us = max(delay_us - least_us, audited.late_us * 7 // 8)

    def _grace_us(self, audited: _AuditedTree) -> int:
        settings = self._settings
        learned_us = max(audited.grace_us, 2 * audited.late_us, 2 * self._times.timeout_us)
        return max(settings.audit_grace_us, min(learned_us, settings.audit_grace_us_max))

    # --- questions ---

    def _set_timer(self, tree: str, audited: _AuditedTree) -> None:
        least_us = min(4 * self._times.timeout_us, self._settings.audit_us_max)
        after_us = jittered(max(audited.interval_us, least_us), self._rng)
        self._outbox.set_timer(("audit", tree), after_us)

    def on_timer(self, tree: str) -> None:
        """Ask some keepers of a tree, in turn."""
        audited = self._trees.get(tree)
        if audited is None:
            return
        table = self._filters.tables.get(tree)
        own = () if table is None else table.own
        for number in [number for number in audited.since_us if number not in own]:
            del audited.since_us[number]
            self._persistence.drop_since(number)
        if not audited.since_us:
            del self._trees[tree]
            return
        self._look_at_own(tree, audited)
        # Without most keepers, an audit shows little, so the node looks them up again at once.
        is_full = self._are_links_full(audited)
        keepers = [] if is_full else self._keepers(tree, audited)
        audited.has_answer = not keepers
        for peer in keepers:
            self._ask(tree, audited, peer)
        if is_full or keepers:
            audited.is_alerted = False
            audited.interval_us = min(2 * audited.interval_us, self._settings.audit_us_max)
            audited.left_out = audited.left_out + 1 if is_full else 0
        else:
            audited.left_out = LEFT_OUT_MAX  # The next audit asks the keepers, also on full links.
        self._set_timer(tree, audited)

    def _are_links_full(self, audited: _AuditedTree) -> bool:
        """Whether an audit would only fill links further; False after some audits were left out.

        Lying nodes can answer late to make links seem full, so a subscriber that relies on no
        single node leaves no audits out.
        """
        if self._settings.keeper_quorum:
            return False
        is_unanswered = bool(audited.asked) and not audited.has_answer
        is_full = is_unanswered or self._times.are_slow or self._lookup.is_slow
        return is_full and audited.left_out < LEFT_OUT_MAX

    def _keepers(self, tree: str, audited: _AuditedTree) -> list[Peer]:
        if audited.asked or self._lookup.are_few(tree):
            # Other keepers may have replaced those that do not answer, or may be back.
            self._lookup.look_up(tree)
        else:
            self._lookup.prepare(tree)
        found = self._lookup.found(tree)
        audited.asked.clear()
        audited.answered_us = {
            peer: us for peer, us in audited.answered_us.items() if peer in found
        }
        for peer in [peer for peer in audited.answers if peer not in found]:
            del audited.answers[peer]
        audited.accused_us = {peer: us for peer, us in audited.accused_us.items() if peer in found}
        bands = [
            [peer for peer in band if not self._detector.is_down(peer)]
            for band in self._lookup.bands(tree)
        ]
        if audited.is_alerted:
            return [peer for band in bands for peer in band]
        if audited.turn % BLAMED_TURNS:
            bands = [self._blame.unblamed(band, self._outbox.now) for band in bands]
        chosen = _in_turn(
            [band for band in bands if band], audited.turn, self._settings.audit_peer_count
        )
        audited.turn += 1
        return chosen

    def _look_at_own(self, tree: str, audited: _AuditedTree) -> None:
        """Deliver events that this node keeps as a keeper and that the tree has not brought."""
        since_us = max(audited.own_until_us, min(audited.since_us.values()))
        part, until_us = self._question(tree, audited, since_us)
        audited.own_until_us = until_us
        self._take(tree, audited, self._own_keeper.own_answer(part), self._outbox.now)

    def _ask(self, tree: str, audited: _AuditedTree, peer: Peer) -> None:
        since_us = audited.answered_us.get(peer, min(audited.since_us.values()))
        part, until_us = self._question(tree, audited, since_us)
        audited.asked[peer] = _Question(part, self._outbox.now, since_us, until_us)
        self._outbox.queue(peer, part)
        self._deadlines.set((tree, peer), self._times.timeout_us_for(peer))

    def on_question_timer(self) -> None:
        """Repeat questions that were not answered in time: the network may have lost them."""
        for tree, peer in self._deadlines.due():
            audited = self._trees.get(tree)
            question = None if audited is None else audited.asked.get(peer)
            if audited is None or question is None or question.tries >= TRIES_MAX:
                continue
            # On full links answers are late, and more questions would make them later.
            if not self._times.are_slow and not self._detector.is_slow(peer):
                audited.asked[peer] = question = question._replace(tries=question.tries + 1)
                self._repeat(tree, peer, question)

    def _repeat(self, tree: str, peer: Peer, question: _Question) -> None:
        """Send a question once more, for the events of the same times."""
        part, later_ms = question.part, (self._outbox.now - question.asked_us) // MS
        age_ms = min(part.age_ms + later_ms, KEPT_US // MS)
        self._outbox.queue(peer, part._replace(age_ms=age_ms, grace_ms=part.grace_ms + later_ms))
        timeout_us = self._times.timeout_us_for(peer)
        self._deadlines.set((tree, peer), backed_off(timeout_us, question.tries, was_heard=False))

    def _question(self, tree: str, audited: _AuditedTree, since_us: int) -> tuple[Audit, int]:
        """A question for the events since a time, and the time up to which it covers them.

        Quick audits (`keeper_quorum`) ask for the latest events too. Others leave these to the next
        audit, because most of them are on their way and would fill slow links twice.
        """
        now, grace_us = self._outbox.now, self._grace_us(audited)
        unasked_us = 0 if self._settings.keeper_quorum else grace_us
        age_us = min(now - since_us + SLACK_US, KEPT_US)
        self._last_number += 1
        wanted, had = (
            self._own_filters(tree),
            self._received(audited, now - age_us - grace_us - SLACK_US),
        )
        part = Audit(tree, self._last_number, wanted, age_us // MS, unasked_us // MS, had)
        return part, now - unasked_us

    def _own_filters(self, tree: str) -> tuple[Predicate, ...]:
        """The filters of this node's own subscriptions."""
        table = self._filters.tables[tree]
        own = islice(table.own.values(), FILTERS_MAX + 1)
        wanted = tuple(dict.fromkeys(predicate for predicate, _ in own))
        everything = Predicate.of({attribute_of(tree): True})
        return wanted if len(wanted) <= FILTERS_MAX else (everything,)

    def _received(self, audited: _AuditedTree, since_us: int) -> tuple[int, ...]:
        got, oldest_us = audited.got, self._outbox.now - 2 * KEPT_US
        while got and got[0].at_us < oldest_us:
            got.popleft()
        late = (id for id, at_us, _ in got if at_us >= since_us)
        return tuple(dict.fromkeys(map(digest_of_id, late)))

    # --- answers ---

    def has_asked(self, peer: Peer, part: Audited) -> bool:
        """Whether a keeper was asked a question that it has not answered."""
        audited = self._trees.get(part.attribute)
        asked = None if audited is None else audited.asked.get(peer)
        return asked is not None and asked.part.number == part.number

    def on_audited(self, peer: Peer, part: Audited) -> None:
        """Deliver the missed events that a keeper names, and ask again soon."""
        tree, audited = part.attribute, self._trees[part.attribute]
        question = audited.asked.pop(peer)
        self._deadlines.cancel((tree, peer))
        audited.has_answer = True
        if not part.has_more:
            audited.answered_us[peer] = question.until_us
        self._keep_answer(audited, peer, part, question)
        self._take(tree, audited, part.missed, question.asked_us)

    def _take(
        self, tree: str, audited: _AuditedTree, missed: Sequence[Missed], asked_us: int
    ) -> None:
        """Deliver events that a keeper has named, once the tree has had time to bring them."""
        grace_us = self._grace_us(audited)
        is_lost = False
        for one in sorted(missed, key=lambda one: place_of(one.event)):
            age_us = one.age_ms * MS
            came = _KeeperArrival(asked_us - age_us, self._outbox.now - age_us)
            due_us = came.first_us + grace_us
            if due_us > self._outbox.now and len(audited.early) < EARLY_MAX:
                audited.early.setdefault(one.event.id, _EarlyEvent(one, came, due_us))
            else:
                is_lost |= self._deliver(tree, audited, one.event, came)
        self._await_early(tree, audited)
        if is_lost:
            self._alert(tree, audited)

    def _await_early(self, tree: str, audited: _AuditedTree) -> None:
        if audited.early:
            due_us = min(early.due_us for early in audited.early.values())
            self._outbox.set_timer(("audit early", tree), due_us - self._outbox.now)

    def on_early_timer(self, tree: str) -> None:
        """Deliver the events that the tree should have brought by now."""
        audited, now = self._trees.get(tree), self._outbox.now
        if audited is None:
            return
        due = [early for early in audited.early.values() if early.due_us <= now]
        for early in due:
            del audited.early[early.missed.event.id]
        self._await_early(tree, audited)
        if [one for one in due if self._deliver(tree, audited, one.missed.event, one.came)]:
            self._alert(tree, audited)

    def _alert(self, tree: str, audited: _AuditedTree) -> None:
        """Audit again soon: an event was missing."""
        audited.is_alerted = True
        audited.interval_us = self._settings.audit_us_min
        self._set_timer(tree, audited)

    def _deliver(
        self, tree: str, audited: _AuditedTree, event: Publication, came: _KeeperArrival
    ) -> bool:
        """Deliver an event unless it has arrived meanwhile; return whether it was missing."""
        key, now = (event.id, tree), self._outbox.now
        table = self._filters.tables.get(tree)
        if table is None or event.id in audited.brought or self._dissemination.has_spread(key):
            return False
        if (
            self._is_old(audited, event)
            or self._dissemination.is_replay(key)
            or not self._signing.is_signed(event)
        ):
            self._outbox.reject("audited events")
            return False
        numbers = tuple(
            number
            for number in table.interested(event.predicate).own
            if self._is_owed_to(audited, number, event, came)
        )
        audited.got.append(_ReceivedEvent(event.id, now, bool(numbers)))
        if not numbers or not self._delivery.deliver_early(Delivery(event, numbers, 0)):
            return False
        if came.last_us >= audited.began_us:  # No node is to blame for what a restart has lost.
            self._note_lost(tree, audited, event, came.first_us)
        return True

    def _note_lost(
        self, tree: str, audited: _AuditedTree, event: Publication, came_us: int
    ) -> None:
        audited.brought[event.id] = self._blame_parent(tree)
        audited.late.append((event, came_us))
        for keeper, (answer, question) in audited.answers.items():
            self._accuse_if_left_out(audited, keeper, answer, question, event, came_us)

    def _blame_parent(self, tree: str) -> Peer:
        """Blame the parent for an event that has not arrived; return the parent, empty for none.

        In an attribute with shards, any of several parents may have dropped it.
        """
        parent = self._membership.parent(tree)
        if parent is None or is_split(self._filters.epochs.of(tree)):
            return b""
        self._blame.put(parent.peer, DROPPED, self._outbox.now)
        self._membership.avoid_parent(tree)
        return parent.peer

    # --- keepers that leave events out ---

    def _keep_answer(
        self, audited: _AuditedTree, peer: Peer, part: Audited, question: _Question
    ) -> None:
        tree, wanted, had = part.attribute, question.part.filters, question.part.had
        if part.question and part.question != question_hash(tree, wanted, had):
            self._outbox.reject("audited events")
            return
        missed = tuple(digest_of_id(missed.event.id) for missed in part.missed)
        numbers = part.incarnation, part.first, part.last
        answer = SignedAnswer(peer, tree, wanted, had, *numbers, missed, part.evidence)
        audited.answers[peer] = answer, question
        for event, came_us in audited.late:
            self._accuse_if_left_out(audited, peer, answer, question, event, came_us)

    def _accuse_if_left_out(
        self,
        audited: _AuditedTree,
        keeper: Peer,
        answer: SignedAnswer,
        question: _Question,
        event: Publication,
        came_us: int,
    ) -> None:
        """Blame a keeper whose answer lacks an event that should have reached it.

        If it has signed the answer, accuse it too.
        """
        digest, now = digest_of_id(event.id), self._outbox.now
        is_recent = now - audited.accused_us.get(keeper, -ACCUSED_US) < ACCUSED_US
        is_covered = came_us + SLACK_US <= question.until_us
        if is_recent or not is_covered or digest in answer.missed or digest in answer.had:
            return
        if any(wanted.matches(event.predicate) for wanted in answer.filters):
            audited.accused_us[keeper] = now
            if came_us >= question.since_us:
                self._blame.put(keeper, WITHHELD, now)
            if answer.evidence:
                self._convictions.accuse(event.id, answer)

    def _is_old(self, audited: _AuditedTree, event: Publication) -> bool:
        """Whether an event is older than keepers keep events, so it may be a forgotten one.

        The clocks of this node and of the publisher may differ by any time. The delays of events
        that the tree has brought show by how much: of this publisher, or else of others.
        """
        if not event.created_us:
            return False
        differ_us = _usual_delays(audited, event.id.publisher).last_us
        return self._outbox.now - event.created_us - differ_us > KEPT_US + SKEW_US_MAX

    def _is_owed_to(
        self, audited: _AuditedTree, number: int, event: Publication, came: _KeeperArrival
    ) -> bool:
        """Whether an event was published after a subscription was in force.

        An event reaches keepers a little after it is published. So one that reached them when the
        subscription came into force may be older. It is older if a later one of its publisher had
        come here before. It must not be delivered after later events of its publisher, unless an
        earlier one was delivered too, or its time of creation shows that it is not older.
        """
        id = event.id
        since_us = audited.since_us.get(number)
        if since_us is None or came.last_us < since_us:
            return False
        of_publisher = [got for got in audited.got if got.id.publisher == id.publisher]
        if any(got.id > id and got.at_us < since_us for got in of_publisher):
            return False
        # Publishers wait for the acknowledgement, unless they need the signatures of keepers.
        is_placed_at_once = bool(self._settings.keeper_quorum)
        slack_us = self._times.timeout_us // (2 if is_placed_at_once else 1)
        if came.first_us >= since_us + slack_us:
            return True
        others = [got.id for got in of_publisher if got.at_us >= since_us and got.is_owed]
        if not others or any(got < id for got in others):
            return True
        if not event.created_us:
            return False
        # The tree would have brought it at this time, or a little later. The delay of the fastest
        # event is unknown, because clocks may differ; it is about that of a few hops.
        least_us = _usual_delays(audited, id.publisher).least_us
        hops_us = HOPS * self._times.usual_us // 2 or slack_us
        return event.created_us + least_us >= since_us + min(audited.late_us, hops_us, slack_us)

    def check(self) -> None:
        """Assert the invariants: each tree has a subscription and a timer interval."""
        settings = self._settings
        assert len(self._trees) <= TREES_MAX
        assert all(len(audited.early) <= EARLY_MAX for audited in self._trees.values())
        for audited in self._trees.values():
            assert audited.since_us
            assert settings.audit_us_min <= audited.interval_us <= settings.audit_us_max
            assert all(asked.tries <= TRIES_MAX for asked in audited.asked.values())
        self._deadlines.check()


def _usual_delays(audited: _AuditedTree, publisher: Peer) -> _Delays:
    """The delays of a publisher's events, or else the median of other publishers.

    If the tree has brought no event, assume that clocks agree.
    """
    delays = audited.delays.get(publisher)
    if delays is not None:
        return delays
    others = sorted(audited.delays.values())
    return others[len(others) // 2] if others else _Delays(0, 0)


def _in_turn(bands: list[list[Peer]], turn: int, count: int) -> list[Peer]:
    """A number of keepers, as many of each band, round robin within each band."""
    if not bands:
        return []
    each = -(-count // len(bands))
    places = range(turn * each, (turn + 1) * each)
    chosen = [band[place % len(band)] for place in places for band in bands]
    return list(dict.fromkeys(chosen))[:count]
