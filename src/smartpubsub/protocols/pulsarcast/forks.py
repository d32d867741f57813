"""Forks: two events that one author has signed under one number, with different payloads.

An author gives a number once, and an event that is published again has the same payload. So two
such blocks convict their author, and any node that has both can verify it. Both are events of the
topic and spread like others, so every node of the topic gets the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer

CONVICTED_COUNT_MAX = 1_000


class Fork(NamedTuple):
    """The blocks of two events of one author with one number."""

    first: bytes
    second: bytes


class Forks:
    """The authors that have forked a topic, each with the evidence."""

    def __init__(self) -> None:
        self.convicted: BoundedDict[Peer, Fork] = BoundedDict(CONVICTED_COUNT_MAX)

    def compare(self, first: TopicEvent, second: TopicEvent) -> bool:
        """Compare two events with one id, whose signatures are verified; whether they are a fork.

        Announcements of versions are compared by their version instead.
        """
        assert first.id == second.id
        drafts = first.draft, second.draft
        is_fork = drafts[0].payload != drafts[1].payload
        if not is_fork or any(draft.is_announcement for draft in drafts):
            return False
        self.convicted[first.id.publisher] = Fork(first.block, second.block)
        return True
