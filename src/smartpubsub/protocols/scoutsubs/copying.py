"""Copies of what a node keeps, with those who would take its place.

A node has the children of its trees copied on the f peers closest to its own key; a rendezvous on
the f others closest to the attribute's. A child that has changed is copied whole. One copy is under
way to a backup at a time; a backup that does not answer is replaced and the new one filled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.scoutsubs.branches import UNTOLD, is_split
from smartpubsub.protocols.scoutsubs.messages import (
    NOBODY,
    ChildCopy,
    CopyTree,
    PulledOwn,
    PullOwn,
    TreeCopied,
)
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.seam import Peer

BACKOFF_MAX = 5
"""The wait for an answer doubles so often at most."""
NOTHING = 0
"""The version of a copy that is not there."""


@dataclass(slots=True)
class _Stream:
    """What one backup has of one tree."""

    contact: Contact
    is_root: bool
    copied: int = -1
    sent: int = -1
    sent_us: int = 0
    tries: int = 0
    dirty: dict[Peer, None] = field(default_factory=dict)
    on_the_way: dict[Peer, None] = field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        return self.sent > self.copied


@dataclass(slots=True)
class TreeCopy:
    """Somebody else's children in a tree, kept for them."""

    is_root: bool
    heard_us: int
    version: int
    children: dict[Peer, ChildCopy] = field(default_factory=dict)
    stage: int = UNTOLD


class Copying:
    """The copies that a node has others keep, and those that it keeps for others."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._streams: dict[str, dict[Peer, _Stream]] = {}
        self.kept: dict[tuple[Peer, str], TreeCopy] = {}
        """By owner and attribute."""
        self._own_asked: dict[Peer, None] = {}
        """Who may have copies of this node's trees and has not answered yet."""
        self._own_tries = 0
        self.was_told = False
        """Whether anybody has said after a start what it keeps for this node."""

    # --- own trees ---

    def backups_of(self, tree: Tree) -> tuple[Contact, ...]:
        """Who ought to keep a copy."""
        if not _needs_copies(tree):
            return ()
        name = tree.name if tree.acts_as_root else self._office.own.peer
        return self._office.closest(name, self._office.settings.backups)

    def backups_to_tell(self, tree: Tree) -> tuple[Contact, ...]:
        """Who keeps a copy, for a parent that cannot reach this node."""
        return tuple(stream.contact for stream in self._streams.get(tree.attribute, {}).values())

    def copied_version(self, tree: Tree) -> int:
        """Up to which version all backups have a copy."""
        streams = self._streams.get(tree.attribute)
        if not streams:
            is_lacking = _needs_copies(tree) and self._office.is_cut_off
            return -1 if is_lacking else tree.copy_version
        return min(stream.copied for stream in streams.values())

    def touch(self, tree: Tree, peer: Peer) -> None:
        """A child has changed."""
        self._office.storing.keep_child(tree, peer)
        self.refresh(tree)
        for stream in self._streams.get(tree.attribute, {}).values():
            stream.dirty[peer] = None
            self._send(tree, stream)

    def refresh(self, tree: Tree) -> None:
        """See to it that those who ought to keep a copy do, and nobody else.

        Not before it is known what the node is in the tree and what it was before a restart: until
        then a copy would replace a better one.
        """
        if tree.role not in (Role.CHILD, Role.ROOT) or not self._office.is_ready:
            return
        wanted = {contact.peer: contact for contact in self.backups_of(tree)}
        streams = self._streams.setdefault(tree.attribute, {})
        for peer in list(streams):
            if peer not in wanted or streams[peer].is_root != tree.acts_as_root:
                del streams[peer]
                tree.copy_version += 1  # What was said before is older than what will be.
                farewell = CopyTree(tree.attribute, False, tree.copy_version, True, (), ())
                if peer not in wanted:
                    self._office.say(peer, farewell)
        for peer, contact in wanted.items():
            if peer not in streams:
                streams[peer] = stream = _Stream(contact, tree.acts_as_root)
                self._office.probing.probe(peer)  # So that it shows when it has started anew.
                self._send(tree, stream)
        if not streams:
            del self._streams[tree.attribute]

    def _send(self, tree: Tree, stream: _Stream, tries: int = 1) -> None:
        if stream.is_under_way:
            return
        is_whole = stream.copied < 0
        own = self._office.own
        peers = [own.peer, *tree.children] if is_whole else list(stream.dirty)
        if not peers:
            return
        copies = tree.copies(own, self._office.incarnation, peers)
        kept = {copy.contact.peer: None for copy in copies}
        part = CopyTree(
            tree.attribute,
            stream.is_root,
            tree.copy_version,
            is_whole,
            tuple(copies),
            () if is_whole else tuple(peer for peer in peers if peer not in kept),
            tree.stage,
        )
        stream.on_the_way, stream.dirty = dict.fromkeys(peers), {}
        stream.sent, stream.sent_us, stream.tries = tree.copy_version, self._office.now, tries
        self._say(stream, part)

    def _say(self, stream: _Stream, part: CopyTree) -> None:
        office = self._office
        office.say(stream.contact.peer, part)
        peer = stream.contact.peer
        wait_us = office.patience_us_with(peer) << min(stream.tries - 1, BACKOFF_MAX)
        # Others wait for it, and it may just have got lost.
        wait_us = min(wait_us, office.settings.check_us_max)
        office.set_timer(("copy", part.attribute, peer), office.now + wait_us)

    def on_timer(self, attribute: str, peer: Peer) -> None:
        """A copy was not acknowledged."""
        tree = self._office.trees.get(attribute)
        stream = self._streams.get(attribute, {}).get(peer)
        if tree is None or stream is None or not stream.is_under_way:
            return
        self._office.probing.probe(peer)  # Which is replaced if it is not there.
        stream.dirty |= stream.on_the_way
        stream.sent = stream.copied
        self._send(tree, stream, stream.tries + 1)

    def on_copied(self, peer: Peer, part: TreeCopied) -> None:
        """A backup has a copy."""
        tree = self._office.trees.get(part.attribute)
        stream = self._streams.get(part.attribute, {}).get(peer)
        if tree is None or stream is None:
            return
        if part.is_full:
            # Which is no reason to do without it; there may be room later.
            stream.tries = 0
            later_us = self._office.now + self._office.settings.check_us_max
            self._office.set_timer(("copy", part.attribute, peer), later_us)
            return
        if part.version == NOTHING:
            self._fill_again(tree, stream)
            return
        if part.version != stream.sent:
            return
        self._office.answered_after(self._office.now - stream.sent_us, stream.tries)
        stream.copied = part.version
        stream.on_the_way = {}
        self._office.cancel_timer(("copy", part.attribute, peer))
        self._send(tree, stream)
        self._office.announcing.settle(tree)

    def on_restarted(self, peer: Peer) -> None:
        """Whoever has started anew has forgotten what it kept."""
        for attribute, streams in self._streams.items():
            if peer in streams and attribute in self._office.trees:
                self._fill_again(self._office.trees[attribute], streams[peer])

    def _fill_again(self, tree: Tree, stream: _Stream) -> None:
        stream.copied = stream.sent = -1
        self._send(tree, stream)

    # --- for others ---

    def on_copy(self, peer: Peer, part: CopyTree) -> None:
        """Somebody wants a copy kept."""
        office = self._office
        key = (peer, part.attribute)
        kept = self.kept.get(key)
        if kept is None and not part.is_whole:
            office.say(peer, TreeCopied(part.attribute, NOTHING, False))
            return
        is_full = False
        # What is older comes late and has been said already.
        if kept is None or part.version > kept.version:
            is_full = not self._has_room(kept, part)
            if is_full:
                office.refusals["copies"] += 1
            else:
                self._keep(key, kept, part)
        elif part.version == kept.version:
            kept.heard_us = office.now
        office.say(peer, TreeCopied(part.attribute, part.version, is_full))

    def _has_room(self, kept: TreeCopy | None, part: CopyTree) -> bool:
        settings = self._office.settings
        if kept is None and _has_content(part) and len(self.kept) >= settings.tree_count_max:
            return False
        known = {} if kept is None or part.is_whole else kept.children
        new = dict.fromkeys(child.contact.peer for child in part.children)
        # One more than a tree has children, for the owner's own filters.
        count = len(known) + sum(peer not in known for peer in new)
        is_small = all(len(child.filters) <= settings.filter_count_max for child in part.children)
        return is_small and count <= settings.child_count_max + 1

    def _keep(self, key: tuple[Peer, str], kept: TreeCopy | None, part: CopyTree) -> None:
        office = self._office
        if part.is_whole and not _has_content(part):
            self.kept.pop(key, None)
            return
        if kept is None or part.is_whole:
            kept = self.kept[key] = TreeCopy(part.is_root, office.now, part.version)
        kept.heard_us, kept.version, kept.stage = office.now, part.version, part.stage
        for child in part.children:
            kept.children[child.contact.peer] = child
        for gone in part.gone:
            kept.children.pop(gone, None)

    def copy_of_root(self, attribute: str) -> tuple[Peer, tuple[ChildCopy, ...]]:
        """The newest copy of a rendezvous' children, and whose they are."""
        found = [
            (kept.heard_us, owner, kept)
            for (owner, name), kept in self.kept.items()
            if name == attribute and kept.is_root
        ]
        if not found:
            return NOBODY, ()
        _, owner, kept = max(found, key=lambda entry: entry[:2])
        return owner, tuple(kept.children.values())

    def stage_of_root(self, attribute: str) -> int:
        """The latest stage of an attribute that a rendezvous has told of."""
        kept = [k.stage for (_, name), k in self.kept.items() if name == attribute and k.is_root]
        return max(kept, default=UNTOLD)

    def roots_kept(self, owner: Peer) -> list[str]:
        """The attributes of whose rendezvous a copy is kept."""
        return [name for (peer, name), kept in self.kept.items() if peer == owner and kept.is_root]

    def owners(self) -> list[Peer]:
        """Those for whom something is kept."""
        return list(dict.fromkeys(owner for owner, _ in self.kept))

    def tick(self) -> None:
        """Once in a while: replace backups that are gone, and forget copies of those long gone."""
        office = self._office
        for tree in list(office.trees.values()):
            self.refresh(tree)
            office.announcing.update(tree)
        # One renewal may get lost, and what the owner's children want lapses after 2t.
        oldest = office.now - 3 * office.settings.renew_us
        for key, kept in list(self.kept.items()):
            if kept.heard_us < oldest:
                del self.kept[key]

    def renew(self, tree: Tree) -> None:
        """Say again that copies are wanted, so that they are not forgotten."""
        for peer, stream in self._streams.get(tree.attribute, {}).items():
            if not stream.is_under_way:
                part = CopyTree(tree.attribute, stream.is_root, stream.copied, False, (), ())
                self._office.say(peer, part)

    def backups(self) -> list[Peer]:
        """Everybody who keeps a copy for this node."""
        return list(dict.fromkeys(peer for streams in self._streams.values() for peer in streams))

    # --- after a start ---

    def recover(self) -> None:
        """Ask those who may keep copies of this node's trees, as it has forgotten them."""
        office = self._office
        around = office.closest(office.own.peer, office.settings.backups + 1)
        self._own_asked = {contact.peer: None for contact in around}
        self._ask_for_own()

    def _ask_for_own(self) -> None:
        office = self._office
        self._own_tries += 1
        if not self._own_asked or self._own_tries > office.settings.tries_max:
            self.stop_recovering()
            return
        for peer in self._own_asked:
            office.say(peer, PullOwn())
        office.set_timer(("recover",), office.now + office.patience_us)

    def on_recover_timer(self) -> None:
        """Not all have answered yet."""
        if not self._office.is_ready:
            self._ask_for_own()

    def on_pull_own(self, peer: Peer) -> None:
        """Somebody has started and asks for its trees."""
        trees = tuple(
            (name, tuple(kept.children.values()))
            for (owner, name), kept in self.kept.items()
            if owner == peer and not kept.is_root
        )
        self._office.say(peer, PulledOwn(trees))

    def on_pulled_own(self, peer: Peer, part: PulledOwn) -> None:
        """Somebody had copies, or none."""
        if peer not in self._own_asked:
            return
        del self._own_asked[peer]
        self.was_told = True
        for attribute, children in part.trees:
            tree = self._office.tree(attribute)
            if tree is not None:
                for copy in children:
                    if copy.contact.peer != self._office.own.peer:
                        child_count_max = self._office.settings.child_count_max
                        tree.restore(copy, self._office.now, child_count_max)
        if not self._own_asked:
            self.stop_recovering()

    def stop_recovering(self) -> None:
        """Whoever has not answered has nothing."""
        office = self._office
        self._own_asked.clear()
        if not office.is_ready:
            office.is_ready = True
            office.storing.resume()
            for tree in list(office.trees.values()):
                self.refresh(tree)
                office.announcing.update(tree)
                office.announcing.announce(tree)


def _needs_copies(tree: Tree) -> bool:
    """A parent has the filters of a leaf; those of a root nobody else has.

    Nor does anybody else know that an attribute is split which nobody wants: who comes has to.
    """
    is_root = tree.acts_as_root and (bool(tree.own) or is_split(tree.stage))
    return is_root or bool(tree.live_children())


def _has_content(part: CopyTree) -> bool:
    return bool(part.children) or is_split(part.stage)
