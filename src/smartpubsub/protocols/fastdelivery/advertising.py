"""How an owner makes its groups known: on the boards of all attributes of a group's predicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.fastdelivery.group import Group
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import Advertise, Answer, Notice, Watchers
from smartpubsub.protocols.fastdelivery.signatures import signed_notice
from smartpubsub.protocols.fastdelivery.told import NotAdvertised
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Round:
    """One time that a group is advertised: who has been told under each attribute."""

    group: Group
    notice: Notice
    told: dict[str, dict[Peer, bool]] = field(default_factory=dict)
    """Once its keepers are found; and whether each has answered."""
    refused: dict[str, dict[Peer, str]] = field(default_factory=dict)
    """Who would not have it on the board, and why."""

    @property
    def problem(self) -> str:
        """Why a search may not find the group: nobody who keeps a board has it there."""
        for attribute, refused in self.refused.items():
            if len(refused) == len(self.told[attribute]):
                reason = next(iter(refused.values()))
                return (
                    f"it is not on the board of {attribute!r}: {reason}; it can be joined by those"
                    " who know its owner, and is advertised again before long"
                )
        return ""

    @property
    def is_complete(self) -> bool:
        attributes = self.group.predicate.attributes
        return all(
            attribute in self.told and all(self.told[attribute].values())
            for attribute in attributes
        )


class Advertising:
    """An owner's notices."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def advertise(self, group: Group) -> None:
        """Tell all boards of a group, and learn who has waited for it."""
        group.advertised_us = self._office.now
        turn = _Round(group, signed_notice(self._office, group.predicate))
        for attribute in group.predicate.attributes:
            self._find(turn, attribute)

    def renew(self, group: Group) -> None:
        """Advertise again if it is time."""
        if group.is_advertised:
            settings = self._office.settings
            if self._office.now - group.advertised_us >= settings.renew_us:
                self.advertise(group)

    def _find(self, turn: _Round, attribute: str) -> None:
        self._office.finding.find(attribute.encode(), partial(self._tell, turn, attribute))

    def _tell(self, turn: _Round, attribute: str, keepers: list[Contact]) -> None:
        told = turn.told.setdefault(attribute, {})
        for keeper in keepers:
            if keeper.peer not in told:
                told[keeper.peer] = False
                self._ask(turn, attribute, keeper.peer, b"")
        self._check(turn)

    def _ask(self, turn: _Round, attribute: str, keeper: Peer, after: Peer) -> None:
        self._office.ask(
            keeper,
            Advertise(attribute, turn.notice, after),
            partial(self._on_watchers, turn, attribute, keeper),
            partial(self._on_silence, turn, attribute, keeper),
            tries_max=self._office.settings.board_tries_max,
        )

    def _on_watchers(self, turn: _Round, attribute: str, keeper: Peer, part: Answer) -> None:
        if not isinstance(part, Watchers):
            return
        if part.refusal:
            turn.refused.setdefault(attribute, {})[keeper] = part.refusal
        self._office.owning.take_watchers(turn.group, turn.notice, part.watched)
        if part.is_more and part.watched:
            self._ask(turn, attribute, keeper, part.watched[-1].request.contact.peer)
        else:
            turn.told[attribute][keeper] = True
            self._tell(turn, attribute, self._office.trusted(part.closer))

    def _on_silence(self, turn: _Round, attribute: str, keeper: Peer) -> None:
        self._office.suspect(keeper)
        del turn.told[attribute][keeper]
        turn.refused.get(attribute, {}).pop(keeper, None)
        self._find(turn, attribute)  # Somebody else keeps the board in its place.

    def _check(self, turn: _Round) -> None:
        if turn.is_complete:
            if problem := turn.problem:
                self._office.deliver(NotAdvertised(self._office.owning.id_of(turn.group), problem))
            self._office.owning.open(turn.group)
