"""Advertises groups in the directories of all attributes of their predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import Advertise, Answer, Notice, Watched, Watchers
from smartpubsub.protocols.fastdelivery.ports import FastComponent
from smartpubsub.seam import Peer

OnWatchers = Callable[[Notice, Sequence[Watched]], None]
"""Is called with standing searches that find the group."""
OnAdvertised = Callable[[str], None]
"""Is called when all keepers have answered, with the problem; "" if there is none."""


@dataclass(slots=True, eq=False)
class _AdvertisingRound:
    """One time that a group is advertised, and which keepers have answered."""

    notice: Notice
    on_watchers: OnWatchers
    on_advertised: OnAdvertised
    told: dict[str, dict[Peer, bool]] = field(default_factory=dict)
    """The keepers of each attribute that were found, and whether each has answered."""
    refused: dict[str, dict[Peer, str]] = field(default_factory=dict)
    """Keepers that have not taken the advertisement, and why."""

    @property
    def problem(self) -> str:
        """Why a search may not find the group; "" if every directory has it."""
        for attribute, told in self.told.items():
            refused = self.refused.get(attribute, {})
            if len(refused) == len(told):
                reason = next(iter(refused.values()), "no node that keeps it answers")
                return (
                    f"it is not in the directory of {attribute!r}: {reason}; nodes that know its"
                    " owner can join it, and it is advertised again before long"
                )
        return ""

    @property
    def is_complete(self) -> bool:
        return all(
            attribute in self.told and all(self.told[attribute].values())
            for attribute in self.notice.predicate.attributes
        )


@dataclass(eq=False)
class GroupAdvertiser(FastComponent):
    """Sends advertisements to the keepers of directories."""

    _keepers: KeeperLookup

    def advertise(
        self, predicate: Predicate, on_watchers: OnWatchers, on_advertised: OnAdvertised
    ) -> None:
        """Put a group into all its directories, and learn which searches wait for it."""
        notice = self._signatures.advertisement(predicate)
        turn = _AdvertisingRound(notice, on_watchers, on_advertised)
        for attribute in predicate.attributes:
            self._find(turn, attribute)

    def _find(self, turn: _AdvertisingRound, attribute: str) -> None:
        self._keepers.find(attribute.encode(), partial(self._tell, turn, attribute))

    def _tell(self, turn: _AdvertisingRound, attribute: str, keepers: list[Contact]) -> None:
        told = turn.told.setdefault(attribute, {})
        for keeper in keepers:
            if keeper.peer not in told:
                told[keeper.peer] = False
                self._ask(turn, attribute, keeper.peer, b"")
        if turn.is_complete:
            turn.on_advertised(turn.problem)

    def _ask(self, turn: _AdvertisingRound, attribute: str, keeper: Peer, after: Peer) -> None:
        self._requests.ask(
            keeper,
            Advertise(attribute, turn.notice, after),
            partial(self._on_watchers, turn, attribute, keeper),
            partial(self._on_failure, turn, attribute, keeper),
            tries_max=self._settings.directory_tries_max,
        )

    def _on_watchers(
        self, turn: _AdvertisingRound, attribute: str, keeper: Peer, answer: Answer
    ) -> None:
        if not isinstance(answer, Watchers):
            return
        if answer.refusal:
            turn.refused.setdefault(attribute, {})[keeper] = answer.refusal
        turn.on_watchers(turn.notice, answer.watched)
        if answer.is_more and answer.watched:
            self._ask(turn, attribute, keeper, answer.watched[-1].request.contact.peer)
        else:
            turn.told[attribute][keeper] = True
            self._tell(turn, attribute, self._keepers.trusted(answer.closer))

    def _on_failure(self, turn: _AdvertisingRound, attribute: str, keeper: Peer) -> None:
        self._keepers.suspect(keeper)
        del turn.told[attribute][keeper]
        turn.refused.get(attribute, {}).pop(keeper, None)
        self._find(turn, attribute)  # Another node keeps the directory in its place.
