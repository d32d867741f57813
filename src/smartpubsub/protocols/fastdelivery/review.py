"""Members notice events that their helper has not brought, and get them from the owner.

A helper may drop an event and confirm it all the same. So a member that a helper serves asks the
owner now and then for the recent events that it lacks; less and less often while none is missing.
The owner knows since when a member wants each predicate, so it sends no older event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent, FastOutbox
from smartpubsub.protocols.fastdelivery.delivery import GroupDelivery
from smartpubsub.protocols.fastdelivery.messages import Answer, GroupId, Review, Reviewed
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.runtime.randomness import jittered

REVIEW_TIMER = "review"
REVIEW_US_MIN = 5 * SECOND
REVIEW_US_MAX = MINUTE
"""The interval of a member's questions: at first and while events are missing, and at most."""
GRACE_US = SECOND
"""How long an event may be on its way before it counts as missed."""
ANSWER_US_MAX = MINUTE // 2
"""How long a member waits for an answer, and repeats the question."""
SLACK_US = SECOND + ANSWER_US_MAX
"""By how much the time that a question is about may shift: it counts back from when the owner gets
it, and the network may have lost the first copies."""
RECENT_US = 5 * MINUTE
RECENT_BYTES_MAX = 32 << 20
REVIEWED_BYTES_MAX = 256 << 10
"""Of the events in one answer."""
MS = 1_000


def mark_of(id: EventId) -> int:
    """A number that no other event of the same owner has."""
    return id.incarnation << 32 | id.number


class _RecentOwnEvent(NamedTuple):
    group: Predicate
    event: Publication
    published_us: int


@dataclass(eq=False)
class RecentGroupEvents:
    """The owner's recent events, for members that ask."""

    _outbox: FastOutbox
    _settings: FastSettings

    def __post_init__(self) -> None:
        self._recent: deque[_RecentOwnEvent] = deque()
        self.bytes_held = 0

    def keep(self, group: Predicate, event: Publication) -> None:
        """Keep an event that was published in a group."""
        if not self._settings.has_reviews:
            return
        self._recent.append(_RecentOwnEvent(group, event, self._outbox.now))
        self.bytes_held += event.wire_bytes
        self.forget_old()

    def forget_old(self) -> None:
        """Forget events that no member asks for any more."""
        recent, oldest_us = self._recent, self._outbox.now - RECENT_US
        while recent and (recent[0].published_us < oldest_us or self.bytes_held > RECENT_BYTES_MAX):
            self.bytes_held -= recent.popleft().event.wire_bytes

    def missed(
        self, question: Review, wanted_us: Mapping[Predicate, int]
    ) -> tuple[Publication, ...]:
        """The events of a group that a member lacks and wanted in time, the oldest first."""
        now, had, size = self._outbox.now, dict.fromkeys(question.had), 0
        oldest_us, until_us = now - question.age_ms * MS, now - GRACE_US
        found: list[Publication] = []
        for group, event, published_us in self._recent:
            if group != question.group or not oldest_us <= published_us <= until_us:
                continue
            if mark_of(event.id) in had or not any(
                since_us <= published_us and wanted.matches(event.predicate)
                for wanted, since_us in wanted_us.items()
            ):
                continue
            size += event.wire_bytes
            if found and size > REVIEWED_BYTES_MAX:
                break
            found.append(event)
        return tuple(found)

    def check(self) -> None:
        """Assert that the size is that of the events."""
        assert self.bytes_held == sum(entry.event.wire_bytes for entry in self._recent)


@dataclass(slots=True)
class _GroupReview:
    """A group in which a helper serves this node, or may have done so before a restart."""

    since_us: int
    """The time up to which the owner has answered for.

    At first it is as long ago as owners keep events: the owner knows what this node wanted then.
    """
    is_answered: bool = False
    interval_us: int = REVIEW_US_MIN


@dataclass(eq=False)
class GroupReviews(FastComponent):
    """The questions of this node, as a member, to owners."""

    _delivery: GroupDelivery
    _is_helped: Callable[[GroupId], bool]
    _rng: Random

    def __post_init__(self) -> None:
        self._reviews: dict[GroupId, _GroupReview] = {}

    def begin(self, group: GroupId) -> None:
        """Begin to review a group in which a helper serves this node, or may have done so."""
        if self._settings.has_reviews and group not in self._reviews:
            self._reviews[group] = _GroupReview(self._outbox.now - RECENT_US)
            self._set_timer(group)

    def _set_timer(self, group: GroupId) -> None:
        after_us = jittered(self._reviews[group].interval_us, self._rng)
        self._outbox.set_timer((REVIEW_TIMER, group), after_us)

    def on_timer(self, group: GroupId) -> None:
        """Ask the owner for missing events."""
        review = self._reviews.get(group)
        if review is None:
            return
        now = self._outbox.now
        is_vain = review.since_us <= now - 2 * RECENT_US  # The owner has forgotten those events.
        if (review.is_answered or is_vain) and not self._is_helped(group):
            del self._reviews[group]
            return
        age_us = min(now - review.since_us + GRACE_US + SLACK_US, RECENT_US)
        # The owner would blame the helper for events that this node has had and forgotten.
        age_us = max(0, min(age_us, now - self._delivery.recent_since_us))
        had = self._delivery.recent(group, now - age_us - GRACE_US - SLACK_US)
        question = Review(group.predicate, age_us // MS, tuple(map(mark_of, had)))
        then = partial(self._on_answer, group, now)
        self._requests.ask(group.owner, question, then, us_max=ANSWER_US_MAX)
        review.interval_us = min(2 * review.interval_us, REVIEW_US_MAX)
        self._set_timer(group)

    def _on_answer(self, group: GroupId, asked_us: int, answer: Answer) -> None:
        review = self._reviews.get(group)
        if review is None or not isinstance(answer, Reviewed):
            return
        review.is_answered = True
        missing = [event for event in answer.events if self._deliver(group, event)]
        if missing:
            review.interval_us = REVIEW_US_MIN
            self._set_timer(group)
        else:
            review.since_us = asked_us

    def _deliver(self, group: GroupId, event: Publication) -> bool:
        """Deliver an event unless it has arrived meanwhile; return whether it was missing."""
        is_of_group = group.owner == event.id.publisher and group.predicate.matches(event.predicate)
        if not is_of_group or not self._signatures.is_event_signed(event):
            self._outbox.reject("reviewed events")
            return False
        return self._delivery.bring(event, group)

    def check(self) -> None:
        """Assert that the intervals are within their limits."""
        for review in self._reviews.values():
            assert REVIEW_US_MIN <= review.interval_us <= REVIEW_US_MAX
