"""When an attribute is split, and which events go down its branches.

A rendezvous with much to send splits its attribute: it tells those below, who have their filters in
all branches from then on (`subscribing.py`) and say so upward. When all do, the rendezvous sends
events on to the branches, and with the first one the permission to take more of them straight from
their publishers, for a while. Without it a branch sends them to the attribute's own rendezvous, who
always may have them: everybody who is in a branch is there too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from smartpubsub.protocols.scoutsubs.branches import (
    STAGE_MAX,
    UNTOLD,
    WHOLE_STAGE,
    base_of,
    branch_for,
    is_split,
)
from smartpubsub.protocols.scoutsubs.messages import Raise
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import EventKey, Opened
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.seam import Peer

PERMIT_US = 30_000_000
"""How long a branch may take events after an attribute's rendezvous has said so, at most."""
STAGES_AT_ONCE_MAX = 1 << 20
"""A child that knows of a stage so much later than its rendezvous does not tell the truth."""
COOL = 8
"""What is so many times less than what makes an attribute hot is nothing to be split for."""
HEAT_US = 1_000_000


@dataclass(slots=True)
class _Heat:
    """How much a rendezvous has to send."""

    since_us: int
    """From when on it is counted."""
    heard_us: int
    """When the stage was last another one, or not yet known."""
    hot_us: int = -1 << 62
    """When it was last enough to have the attribute split."""
    copies: Counter[Peer] = field(default_factory=Counter)
    """By publisher."""


class Branching:
    """A node's part in splitting attributes."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._permitted_us: dict[str, int] = {}
        """By branch: when it was last told that it may take events."""
        self._under_way: dict[tuple[Peer, str], dict[EventKey, None]] = {}
        """By publisher and tree: what goes down from this node as its root."""
        self._heat: dict[str, _Heat] = {}

    # --- stages ---

    def claim(self, tree: Tree) -> int:
        """Up to which stage all is in the branches that is in force here and below.

        Whatever has come to a whole stage has left the branches of those before.
        """
        if tree.stage == WHOLE_STAGE:
            return WHOLE_STAGE
        claims = [child.stage for child in tree.live_children() if child.stage != UNTOLD]
        if self._office.subscribing.lags(tree):
            claims.append(max(WHOLE_STAGE, tree.stage - 1))
        if tree.stage != UNTOLD:
            claims.append(tree.stage)
        lowest = min(claims, default=UNTOLD)
        has_left = is_split(lowest) and not all(map(is_split, claims))
        return WHOLE_STAGE if has_left else lowest

    def hear(self, tree: Tree, stage: int) -> None:
        """Somebody who knows says which stage an attribute is in; a branch is always whole."""
        if base_of(tree.attribute) != tree.attribute:
            stage = min(stage, WHOLE_STAGE)
        if not tree.stage < stage <= STAGE_MAX:
            return
        was_told = tree.stage != UNTOLD
        tree.stage = stage
        if tree.claim == UNTOLD and stage == WHOLE_STAGE:
            tree.claim = stage  # So the parent takes it that has told it; it needs no announcement.
        if is_split(stage) or was_told:
            self._on_stage(tree)

    def on_parent(self, tree: Tree, stage: int) -> None:
        """A parent says which stage an attribute is in.

        After failures that can be an earlier one than others have told. Those above may send events
        down the branches then, so the node has to be there.
        """
        parent = tree.parent.peer if tree.parent else None
        if stage >= tree.stage:
            tree.stage_by = parent
        elif is_split(stage) and not is_split(tree.stage) and tree.stage_by != parent:
            tree.stage_by, stage = parent, tree.stage + 1
        self.hear(tree, stage)

    def on_child(self, tree: Tree, stage: int) -> None:
        """A child knows of a stage: so there was one, also if this rendezvous is new.

        Others are not made to leave the branches by it, for events may be under way there.
        """
        if tree.role is not Role.ROOT or stage <= tree.stage:
            return
        if stage - tree.stage > STAGES_AT_ONCE_MAX:
            self._office.refusals["stages"] += 1
            return
        self.hear(tree, stage + 1 if is_split(tree.stage) and not is_split(stage) else stage)

    def _on_stage(self, tree: Tree) -> None:
        office = self._office
        self._heat_of(tree).heard_us = office.now
        tree.copy_version += 1
        tree.stage_copy_version = tree.copy_version
        office.storing.keep_stage(tree)
        office.copying.touch(tree, office.own.peer)
        office.subscribing.on_stage(tree)
        office.announcing.tell_stage(tree)
        office.announcing.update(tree)
        office.offering.on_changed()

    def tick(self) -> None:
        """Once in a while: have whole again what is not hot any more."""
        office = self._office
        self._heat = {name: heat for name, heat in self._heat.items() if name in office.trees}
        for tree in list(office.trees.values()):
            if tree.role is Role.ROOT and is_split(tree.stage):
                # Longer than any permission lasts, or an event that was permitted.
                heat = self._heat_of(tree)
                cold_us = office.now - max(heat.heard_us, heat.hot_us)
                if cold_us > 4 * office.settings.renew_us:
                    self.hear(tree, tree.stage + 1)
        oldest = office.now - self._permit_us
        self._permitted_us = {n: at for n, at in self._permitted_us.items() if at > oldest}

    # --- heat ---

    def warm(self, tree: Tree, publisher: Peer, copies: int) -> None:
        """A rendezvous has begun to send copies of an event of somebody."""
        office, hot = self._office, self._office.settings.hot_copies_per_s
        if not hot or not office.settings.is_reliable or base_of(tree.attribute) != tree.attribute:
            return
        heat = self._heat_of(tree)
        heat.copies[publisher] += copies
        took_us = office.now - heat.since_us
        if took_us < HEAT_US:
            return
        per_s = heat.copies.total() * 1_000_000 // took_us
        most_per_s = max(heat.copies.values()) * 1_000_000 // took_us
        heat.copies.clear()
        heat.since_us = office.now
        if COOL * per_s >= hot:
            heat.hot_us = office.now
        # What one publisher sends goes by one tree in any case.
        is_hot = per_s >= hot and 2 * (per_s - most_per_s) >= hot
        if is_hot and not is_split(tree.stage) and self.claim(tree) == tree.stage:
            self.hear(tree, tree.stage + 1)

    def _heat_of(self, tree: Tree) -> _Heat:
        now = self._office.now
        return self._heat.setdefault(tree.attribute, _Heat(now, now))

    # --- which way an event goes ---

    @property
    def _permit_us(self) -> int:
        """How long a permission lasts; with all that comes before it less than the branches."""
        return min(PERMIT_US, self._office.settings.renew_us // 2)

    def on_opened(self, opened: Opened) -> None:
        """An event goes down from this node as the root of a tree."""
        name = opened.event.id.publisher, opened.attribute
        self._under_way.setdefault(name, {})[opened.key] = None

    def on_concluded(self, opened: Opened) -> None:
        """An event has come to everybody."""
        name = opened.event.id.publisher, opened.attribute
        there = self._under_way.get(name, {})
        there.pop(opened.key, None)
        if not there:
            self._under_way.pop(name, None)

    def on_tried(self, opened: Opened) -> None:
        """An event is sent again; after some tries nothing is held up by it any more."""
        if opened.tries >= self._office.settings.tries_max:
            self.on_concluded(opened)

    def moved(self, tree: Tree, part: Raise) -> Raise | None:
        """An event as it has to go on to another key from this root; None if it is to stay."""
        base = base_of(tree.attribute)
        if tree.attribute == base:
            name = branch_for(base, part.event.id.publisher)
            if name == base or not self._is_open(tree) or self._is_under_way(tree, part):
                return None
            self.warm(tree, part.event.id.publisher, 1)
            return self._on(tree, part._replace(attribute=name, is_permitted=True))
        if part.is_permitted:
            self._permitted_us[tree.attribute] = self._office.now
            return None
        permit_us = self._permit_us
        age_us = self._office.now - self._permitted_us.get(tree.attribute, -permit_us)
        is_late = 2 * age_us > permit_us and not self._is_under_way(tree, part)
        if age_us < permit_us and not is_late:
            return None
        return self._on(tree, part._replace(attribute=base))

    def _on(self, tree: Tree, part: Raise) -> Raise:
        """An event that goes on; where the one before it has been, nobody there waits for that."""
        before = part.event.id._replace(number=part.previous)
        was_here = self._office.admitting.has_admitted((before, tree.attribute))
        return part._replace(previous=0) if was_here else part

    def _is_open(self, tree: Tree) -> bool:
        """Whether everybody is in the branches and will be there."""
        office = self._office
        return (
            is_split(tree.stage)
            and self.claim(tree) == tree.stage
            and office.now - self._heat_of(tree).hot_us < office.settings.renew_us
            and office.copying.copied_version(tree) >= tree.stage_copy_version
        )

    def _is_under_way(self, tree: Tree, part: Raise) -> bool:
        """Whether an event, or one before it, is going down this tree, or waits to do so.

        What goes by another tree might overtake it.
        """
        id, office = part.event.id, self._office
        is_here = office.admitting.has_admitted((id, tree.attribute))
        is_in_line = office.following.is_in_line(part)
        return is_here or is_in_line or (id.publisher, tree.attribute) in self._under_way
