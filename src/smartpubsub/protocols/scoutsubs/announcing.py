"""How filters get to be known above: announced from child to parent, and acknowledged.

A child announces what has changed since the version that its parent has. The parent keeps it, has
it copied, announces what that changes in its own summary, and tells the child when all of that is
in force. One announcement is under way at a time; what changes meanwhile goes with the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.scoutsubs.branches import UNTOLD
from smartpubsub.protocols.scoutsubs.child import Child
from smartpubsub.protocols.scoutsubs.children import has_room, shortcut, somebody_else
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce, Announced
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import MS
from smartpubsub.protocols.scoutsubs.tree import Owner, Role, Tree, Wait
from smartpubsub.seam import Peer

BACKOFF_MAX = 5
"""The wait for an answer doubles so often at most."""
NO_ROOM = 0
"""As the version that a parent has: none, for it would be too much."""


@dataclass(slots=True)
class _UnderWay:
    """An announcement that has not been answered."""

    version: int
    sent_us: int
    tries: int = 1


class Announcing:
    """A node's announcements, and those of its children."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._under_way: dict[str, _UnderWay] = {}
        self._leaving: dict[tuple[str, Peer], int] = {}
        """Former parents that have not said that they have forgotten, and how often asked."""

    # --- upward ---

    def set_parent(self, tree: Tree, parent: Contact, *, is_retry: bool) -> None:
        """Announce everything to a new parent; the old one is told when that is in force."""
        if tree.parent is not None and tree.parent.peer != parent.peer:
            self._leaving[tree.attribute, tree.parent.peer] = 0
        tree.parent = parent
        tree.begin_anew()
        tree.received = WHOLE
        tree.in_force = 0 if tree.has_been_shown else tree.version
        self._under_way.pop(tree.attribute, None)
        self.announce(tree, is_retry=is_retry)

    def update(self, tree: Tree) -> None:
        """Announce what has changed, if anything has; and see what that lets come into force."""
        if self._office.advance(tree):
            self.announce(tree)
        self.settle(tree)

    def announce(self, tree: Tree, *, is_retry: bool = False) -> None:
        """Tell the parent what it does not have, unless something is under way to it."""
        if tree.role is not Role.CHILD or tree.parent is None:
            return
        if not self._office.is_ready:
            return  # It would replace what the parent knows of those below.
        if tree.attribute in self._under_way or tree.received == tree.version:
            return
        if tree.received == WHOLE and not tree.has_been_shown:
            return  # There is nothing to be known yet.
        self._under_way[tree.attribute] = _UnderWay(tree.version, self._office.now)
        self._send(tree, is_retry=is_retry)

    def _send(self, tree: Tree, *, is_retry: bool, patience: int = 1) -> None:
        assert tree.parent is not None
        office = self._office
        root_ms = (office.now - tree.root_us) // MS + 1 if tree.is_handing_over else 0
        announcement = tree.announcement(office.incarnation, root_ms, is_retry=is_retry)
        office.say(tree.parent.peer, announcement)
        if announcement.base == WHOLE:
            office.offering.tell_again(tree)
        patience_us = patience * office.patience_us_with(tree.parent.peer)
        office.set_timer(("announce", tree.attribute), office.now + patience_us)

    def on_timer(self, attribute: str) -> None:
        """An announcement was not answered, or is not yet in force."""
        tree = self._office.trees.get(attribute)
        if tree is None or tree.role is not Role.CHILD or tree.parent is None:
            return
        under_way = self._under_way.get(attribute)
        if under_way is None:
            if tree.in_force < tree.version:
                self._send(tree, is_retry=False, patience=4)  # Which asks how far it has come.
            return
        # Whether the parent is there is for a probe to say, for that is not held up by anything.
        self._office.probing.probe(tree.parent.peer)
        self._send(tree, is_retry=False, patience=1 << min(under_way.tries, BACKOFF_MAX))
        under_way.tries += 1

    def renew(self, tree: Tree) -> None:
        """Say again what is announced, so that it does not lapse, until that is answered."""
        if tree.role is Role.CHILD and tree.attribute not in self._under_way and not tree.is_empty:
            self._under_way[tree.attribute] = _UnderWay(tree.version, self._office.now)
            self._send(tree, is_retry=False)

    def on_announced(self, peer: Peer, part: Announced) -> None:
        """A parent has answered."""
        if part.incarnation != self._office.incarnation:
            self._office.refusals["replay"] += 1
            return
        self._leaving.pop((part.attribute, peer), None)
        tree = self._office.trees.get(part.attribute)
        if tree is None or tree.parent is None or tree.parent.peer != peer:
            return
        under_way = self._under_way.get(part.attribute)
        if part.go_to is not None:
            self._go_to(tree, part.go_to)
            return
        if part.wants_whole:
            tree.received = WHOLE
            self._under_way.pop(part.attribute, None)
            self.announce(tree)
            return
        if part.version == NO_ROOM:
            if under_way is not None:  # Nobody else has to do with that; there may be room later.
                under_way.tries = 0
                later_us = self._office.now + self._office.settings.check_us_max
                self._office.set_timer(("announce", tree.attribute), later_us)
            return
        if not tree.first_version <= part.version <= tree.version:
            return  # It answers a farewell of before, or what was never said.
        if under_way is not None and part.version >= under_way.version:
            self._office.answered_after(self._office.now - under_way.sent_us, under_way.tries)
            del self._under_way[part.attribute]
        tree.received = max(tree.received, part.version)
        self._take_in_force(tree, part)
        self.announce(tree)
        self.settle(tree)

    def _take_in_force(self, tree: Tree, part: Announced) -> None:
        if part.in_force:
            # First, for what is in force in a split attribute is so in its branches.
            self._office.branching.on_parent(tree, part.stage)
        tree.in_force = max(tree.in_force, part.in_force)
        if tree.is_in_force:
            tree.in_force_us = self._office.now
            tree.is_handing_over = False
            self._office.cancel_timer(("announce", tree.attribute))
            self._leave_others(tree)

    def _go_to(self, tree: Tree, elsewhere: Contact) -> None:
        """A parent has enough children and knows somebody else who is on the way."""
        office = self._office
        own_distance = office.own.key ^ tree.key
        is_on_the_way = elsewhere.key ^ tree.key < own_distance
        tree.parent = None  # It has kept nothing that would have to be withdrawn.
        if is_on_the_way and not office.is_suspect(elsewhere.peer):
            self.set_parent(tree, elsewhere, is_retry=False)
        else:
            office.seeking.lose_parent(tree)

    def _leave_others(self, tree: Tree) -> None:
        """What was announced to former parents is withdrawn, now that the new one has it."""
        office = self._office
        for attribute, peer in list(self._leaving):
            if attribute != tree.attribute or (tree.parent and peer == tree.parent.peer):
                continue
            tries = self._leaving[attribute, peer]
            if tries >= office.settings.tries_max:
                del self._leaving[attribute, peer]
                continue
            self._leaving[attribute, peer] = tries + 1
            farewell = Announce(
                attribute, office.incarnation, tree.version, WHOLE, (), (), None, (), False
            )
            office.say(peer, farewell)

    def is_leaving(self, attribute: str) -> bool:
        """Whether a former parent has not yet said that it has forgotten."""
        return any(name == attribute for name, _ in self._leaving)

    def tick(self) -> None:
        """Once in a while: say again what may have been lost."""
        for attribute in list(dict.fromkeys(attribute for attribute, _ in self._leaving)):
            tree = self._office.trees.get(attribute)
            if tree is not None and tree.in_force >= tree.version:
                self._leave_others(tree)

    # --- from below ---

    def on_announce(self, contact: Contact, part: Announce) -> None:
        """A child has announced something."""
        office = self._office
        tree = office.trees.get(part.attribute)
        if tree is None:
            if part.base == WHOLE and not part.added:
                self._answer(contact.peer, part, version=part.version, in_force=part.version)
                return
            tree = office.tree(part.attribute)
        if tree is None or contact.key ^ tree.key <= office.own.key ^ tree.key:
            return  # Filters come only from farther away, so there are no loops.
        if part.is_retry:
            office.seeking.doubt(tree)
        child = tree.children.get(contact.peer)
        if child is not None and part.incarnation < child.incarnation:
            office.refusals["replay"] += 1
            return
        known = child is not None and part.incarnation == child.incarnation
        if child is not None and known and part.version <= child.version:
            child.heard_us = office.now
            if part.version == child.version and part.stage > child.stage:
                child.stage = part.stage  # What it was told meanwhile may have got lost.
                self.update(tree)
            self._answer_known(tree, child)
            return
        if part.base != WHOLE and not (known and child is not None and child.version == part.base):
            self._answer(contact.peer, part, version=0, in_force=0, wants_whole=True)
            return
        self._apply(tree, contact, part)

    def _apply(self, tree: Tree, contact: Contact, part: Announce) -> None:
        office = self._office
        child = tree.children.get(contact.peer)
        if not has_room(office, tree, child, contact.peer, part):
            office.refusals["filters"] += 1
            self._answer(contact.peer, part, version=NO_ROOM, in_force=0)
            return
        if child is None:
            # Who has missed something gets it here, and nowhere else.
            has_to_stay = part.is_retry or (part.root_ms and tree.recent)
            elsewhere = None if has_to_stay else somebody_else(office, tree, contact)
            if elsewhere is not None:
                office.say(
                    contact.peer,
                    Announced(part.attribute, part.incarnation, 0, 0, False, elsewhere),
                )
                return
            child = Child(contact, part.incarnation, part.version, office.now, stage=UNTOLD)
            tree.children[contact.peer] = child
        removed = list(part.removed)
        if part.base == WHOLE:
            wanted = dict.fromkeys(part.added)
            if not wanted and child.filters:
                tree.let_go(child, office.now)
            removed = [predicate for predicate in child.filters if predicate not in wanted]
        if part.incarnation != child.incarnation:
            child.outstanding, child.stage = 0, UNTOLD
        child.incarnation, child.version, child.heard_us = (
            part.incarnation,
            part.version,
            office.now,
        )
        # What is said before it has heard of a stage does not undo that it was told of one.
        child.backups, child.stage = part.backups, part.stage or child.stage
        child.direct = shortcut(office, tree, contact, part)
        tree.change_child(child, part.added, removed)
        office.copying.touch(tree, contact.peer)
        office.branching.on_child(tree, part.stage)
        self._changed(tree, contact.peer, part.version)
        office.spreading.on_return(tree, child)
        if part.is_retry:
            office.admitting.on_moved(tree, contact.peer)
        if part.root_ms and office.settings.is_reliable:
            office.admitting.share_with(tree, contact.peer, part.root_ms)
        office.seeking.on_announced_below(tree, contact.peer)

    def forget_child(self, tree: Tree, peer: Peer) -> None:
        """A child has not renewed what it has announced, so that has lapsed."""
        tree.drop_child(peer)
        self._office.copying.touch(tree, peer)
        self._changed(tree, peer, 0)

    def on_own_change(self, tree: Tree, number: int) -> None:
        """One of the node's own filters has changed."""
        self._changed(tree, number, 0)

    def _changed(self, tree: Tree, who: Peer | int, told_version: int) -> None:
        """Something below has changed: whoever it was is told when that is in force."""
        tree.used_us = self._office.now
        self._office.offering.on_changed()
        self._office.advance(tree)
        # Of an owner only the last change is told, since it implies those before.
        tree.waiting.pop(who, None)
        tree.waiting[who] = Wait(told_version, tree.version, tree.copy_version)
        self.announce(tree)
        self.settle(tree)
        if isinstance(who, bytes) and who in tree.waiting:
            self._tell(tree, who, told_version, in_force=0)

    # --- what is in force ---

    def settle(self, tree: Tree) -> None:
        """Tell those whose filters are in force now."""
        if not tree.waiting:
            return
        if tree.role is Role.ROOT:
            tree.in_force = tree.version
        copied = self._office.copying.copied_version(tree)
        told: list[Owner] = []
        for who, wait in tree.waiting.items():
            if tree.in_force < wait.version or copied < wait.copy_version:
                break  # All others wait for more than that.
            told.append(who)
            if isinstance(who, int):
                self._office.subscribing.on_in_force(who, tree.attribute)
            else:
                self._tell(tree, who, wait.told_version, in_force=wait.told_version)
        for who in told:
            del tree.waiting[who]

    def _tell(self, tree: Tree, peer: Peer, version: int, *, in_force: int) -> None:
        child = tree.children.get(peer)
        if child is None:
            return
        if in_force:
            # From here on it has something in force, in the stage that it is told of.
            child.stage = child.stage or tree.stage
        self._office.say(
            peer,
            Announced(
                *(tree.attribute, child.incarnation, version, in_force, False, None),
                stage=tree.stage,
            ),
        )

    def tell_stage(self, tree: Tree) -> None:
        """Tell all children which stage the attribute is in."""
        for child in tree.live_children():
            self._answer_known(tree, child)

    def _answer_known(self, tree: Tree, child: Child) -> None:
        peer = child.contact.peer
        self._tell(tree, peer, child.version, in_force=0 if peer in tree.waiting else child.version)

    def _answer(
        self, peer: Peer, part: Announce, *, version: int, in_force: int, wants_whole: bool = False
    ) -> None:
        answer = Announced(part.attribute, part.incarnation, version, in_force, wants_whole, None)
        self._office.say(peer, answer)
