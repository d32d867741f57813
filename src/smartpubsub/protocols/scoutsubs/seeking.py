"""Who is above: the next hop towards an attribute's rendezvous, or the node itself.

A node's parent is the peer closest to the attribute's key that it knows. If it knows nobody closer
than itself, that proves nothing unless its routing table says so: then a lookup decides. A node
that turns out to be the closest first asks those around it what they know of the attribute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.scoutsubs.branches import WHOLE_STAGE
from smartpubsub.protocols.scoutsubs.messages import Adopt, ChildCopy, Pull, Pulled
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.seam import Deliver, Peer


@dataclass(slots=True)
class _Sync:
    """What a node that is to be the rendezvous has heard so far."""

    waiting: dict[Peer, None]
    tries: int = 1
    heard: list[tuple[Peer, Pulled]] = field(default_factory=list)
    expected: dict[Peer, None] = field(default_factory=dict)
    """Those that were the rendezvous until now and will announce what they have."""
    near: dict[Peer, None] = field(default_factory=dict)
    """Those of them who ought to know, if they are no newcomers."""

    def is_complete(self, *, is_known: bool) -> bool:
        """Whether nobody has to be waited for: of those farther away only if nobody near knows."""
        is_known = is_known or any(p.was_root or p.owner or p.records for _, p in self.heard)
        needed = self.near if is_known else self.waiting
        return not self.expected and not any(peer in self.waiting for peer in needed)


class Seeking:
    """A node's place in its trees."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._lookups: dict[int, str] = {}
        self._syncs: dict[str, _Sync] = {}

    def seek(self, tree: Tree, *, is_retry: bool = False) -> None:
        """Find out who is above."""
        office = self._office
        hop = office.closer(tree)
        if hop is not None:
            self._set_parent(tree, hop, is_retry=is_retry)
        elif office.kademlia.is_closest(tree.name) is None:
            self._look_up(tree)
        else:
            # Proven by the table, or whoever is closer does not answer.
            self._sync(tree)

    def lose_parent(self, tree: Tree) -> None:
        """Whoever was above is not there any more."""
        self._syncs.pop(tree.attribute, None)
        tree.move("parent lost")
        self.seek(tree, is_retry=True)

    def doubt(self, tree: Tree) -> None:
        """Somebody below could not reach a peer closer to the root: see whether the parent can."""
        if tree.role is Role.CHILD and tree.parent is not None:
            self._office.probing.probe(tree.parent.peer)

    def check(self, tree: Tree) -> None:
        """Look whether somebody has come who is closer to the key than this root."""
        if tree.role in (Role.ROOT, Role.SYNCING):
            hop = self._office.closer(tree)
            if hop is not None:
                self._set_parent(tree, hop)

    def on_rival(self, contact: Contact, attribute: str) -> None:
        """Somebody acts as the rendezvous of an attribute: it is, if it is closer to the key."""
        tree = self._office.trees.get(attribute)
        if tree is None or tree.role not in (Role.ROOT, Role.SYNCING):
            return
        if contact.key ^ tree.key < self._office.own.key ^ tree.key:
            self._set_parent(tree, contact)

    def verify(self, tree: Tree) -> None:
        """Have a lookup say whether this root is still the closest."""
        if tree.role is Role.ROOT and tree.attribute not in self._lookups.values():
            self._look_up(tree)

    # --- a parent ---

    def _set_parent(self, tree: Tree, parent: Contact, *, is_retry: bool = False) -> None:
        self._syncs.pop(tree.attribute, None)
        was_root = tree.role is Role.ROOT
        tree.is_handing_over = was_root and not tree.is_empty
        if parent.peer in tree.children:
            tree.drop_child(parent.peer)
        tree.move("somebody closer is there")
        self._office.copying.refresh(tree)
        self._office.advance(tree)
        self._office.announcing.set_parent(tree, parent, is_retry=is_retry)
        self._office.admitting.release(tree)
        if was_root:
            self._office.admitting.hand_over(tree)

    def _look_up(self, tree: Tree) -> None:
        number, effects = self._office.kademlia.find_closest(tree.name, self._office.now)
        self._lookups[number] = tree.attribute
        for effect in effects:
            if isinstance(effect, Deliver):  # There was nobody to ask.
                self.on_found(effect.item)
            else:
                self._office.do(effect)

    def on_found(self, found: object) -> None:
        """A lookup has ended."""
        if not isinstance(found, Found):
            return
        attribute = self._lookups.pop(found.number, None)
        tree = self._office.trees.get(attribute) if attribute is not None else None
        if tree is None or tree.role not in (Role.SEEKING, Role.ROOT):
            return
        closest = [c for c in found.closest if not self._office.is_suspect(c.peer)]
        if closest and closest[0].peer != self._office.own.peer:
            self._set_parent(tree, closest[0])
        elif tree.role is Role.SEEKING:
            self._sync(tree)
        else:
            self._office.admitting.on_proved(tree)

    def _around(self, tree: Tree, count: int) -> dict[Peer, None]:
        """So many who may know of an attribute, and the suspects among them,

        for whoever takes the place of somebody had better ask once more whether that one is there.
        """
        office = self._office
        known = office.kademlia.closest_local(tree.name, count + office.suspect_count)
        trusted = 0
        around: dict[Peer, None] = {}
        for contact in known:
            if trusted < count:
                around[contact.peer] = None
                trusted += not office.is_suspect(contact.peer)
        return around

    # --- becoming the rendezvous ---

    def _sync(self, tree: Tree) -> None:
        tree.move("nobody closer is there")
        tree.parent = None
        # Newcomers may be the closest and know nothing, so more are asked than keep a copy.
        count = self._office.settings.backups + 1
        sync = _Sync(self._around(tree, 2 * count), near=self._around(tree, count))
        self._syncs[tree.attribute] = sync
        self._ask_around(tree, sync)
        self._conclude_if_complete(tree)

    def _ask_around(self, tree: Tree, sync: _Sync) -> None:
        office = self._office
        for peer in sync.waiting:
            office.say(peer, Pull(tree.attribute))
        office.set_timer(("sync", tree.attribute), office.now + office.patience_us)

    def on_pull(self, contact: Contact, part: Pull) -> None:
        """Somebody is to be the rendezvous of an attribute: say what is known here."""
        office = self._office
        tree = office.trees.get(part.attribute)
        records = office.admitting.records_of(part.attribute)
        if tree is not None and tree.acts_as_root:
            pulled = Pulled(part.attribute, True, office.own.peer, (), records, tree.stage)
        else:
            owner, children = office.copying.copy_of_root(part.attribute)
            stage = office.copying.stage_of_root(part.attribute)
            stage = stage if tree is None else max(stage, tree.stage)
            pulled = Pulled(part.attribute, False, owner, children, records, stage)
        office.say(contact.peer, pulled)
        is_closer = tree is not None and contact.key ^ tree.key < office.own.key ^ tree.key
        if tree is not None and tree.role is not Role.CHILD and is_closer:
            self._set_parent(tree, contact)

    def on_pulled(self, contact: Contact, part: Pulled) -> None:
        """Somebody has said what it knows."""
        tree = self._office.trees.get(part.attribute)
        sync = self._syncs.get(part.attribute)
        if tree is None or sync is None or tree.role is not Role.SYNCING:
            return
        if part.was_root and contact.key ^ tree.key < self._office.own.key ^ tree.key:
            self._set_parent(tree, contact)
            return
        if contact.peer not in sync.waiting:
            return
        del sync.waiting[contact.peer]
        sync.heard.append((contact.peer, part))
        if part.was_root and contact.peer not in tree.children:
            sync.expected[contact.peer] = None
        self._conclude_if_complete(tree)

    def on_announced_below(self, tree: Tree, peer: Peer) -> None:
        """A child has announced; perhaps it is the former root that was waited for."""
        sync = self._syncs.get(tree.attribute)
        if sync is not None and sync.expected.pop(peer, 0) is None:
            self._conclude_if_complete(tree)

    def on_timer(self, attribute: str) -> None:
        """Somebody has not answered, and is asked again, but not for ever."""
        tree = self._office.trees.get(attribute)
        sync = self._syncs.get(attribute)
        if tree is None or sync is None or tree.role is not Role.SYNCING:
            return
        sync.tries += 1
        # Who is suspected has been asked often enough before; once more will do. And who is far
        # away has no more to say than whoever does not answer, most probably.
        needed = [peer for peer in sync.waiting if peer in sync.near]
        is_suspected = all(map(self._office.is_suspect, needed)) and not sync.expected
        if sync.tries <= self._office.settings.tries_max and not is_suspected:
            self._ask_around(tree, sync)
            return
        for peer in needed:
            self._office.suspect(peer)
        self._become_root(tree)

    def _conclude_if_complete(self, tree: Tree) -> None:
        owner, _ = self._office.copying.copy_of_root(tree.attribute)
        if self._syncs[tree.attribute].is_complete(is_known=bool(owner)):
            self._become_root(tree)

    def _become_root(self, tree: Tree) -> None:
        office = self._office
        sync = self._syncs.pop(tree.attribute)
        office.cancel_timer(("sync", tree.attribute))
        tree.move("what others know is here")
        tree.root_us = office.now
        former_roots = {peer: None for peer, pulled in sync.heard if pulled.was_root}
        owner, children = office.copying.copy_of_root(tree.attribute)
        copies = [(owner, children)]
        copies += [(pulled.owner, pulled.children) for _, pulled in sync.heard]
        stored = office.storing.children_of(tree.attribute)
        if not former_roots:
            copies.append((office.own.peer, stored))
        adopted: list[Peer] = []
        for owner, children in copies:
            if owner not in former_roots:  # Those announce by themselves what they have.
                adopted += [c.contact.peer for c in children if self._adopt(tree, c, owner)]
        stages = [office.copying.stage_of_root(tree.attribute), *(p.stage for _, p in sync.heard)]
        office.branching.hear(tree, max(WHOLE_STAGE, *stages))
        for child in tree.live_children():
            office.branching.on_child(tree, child.stage)
        for peer in adopted:  # When all are there, for what is copied replaces what others have.
            office.copying.touch(tree, peer)
        office.copying.refresh(tree)
        office.advance(tree)
        office.announcing.settle(tree)
        for _, pulled in sync.heard:
            office.admitting.take_over(tree, pulled.records)
        office.admitting.take_over(tree, office.admitting.records_of(tree.attribute))
        office.admitting.release(tree)

    def _adopt(self, tree: Tree, copy: ChildCopy, owner: Peer) -> bool:
        """Take a former rendezvous' child, also one that is closer to the key and does not answer:

        those below it are reached by way of its backups until they have found another parent.
        """
        peer = copy.contact.peer
        office = self._office
        child_count_max = office.settings.child_count_max
        if peer == office.own.peer or not tree.restore(copy, office.now, child_count_max):
            return False
        self._office.say(peer, Adopt(tree.attribute, owner))
        return True

    def on_adopt(self, contact: Contact, part: Adopt) -> None:
        """Somebody has taken a lost parent's place."""
        tree = self._office.trees.get(part.attribute)
        if tree is None or tree.role is not Role.CHILD or tree.parent is None:
            return
        if tree.parent.peer != part.instead_of:
            return
        if contact.peer == part.instead_of or self._office.is_suspect(part.instead_of):
            if contact.key ^ tree.key < self._office.own.key ^ tree.key:
                self._set_parent(tree, contact)
        else:
            self._office.probing.probe(part.instead_of)  # Somebody may be wrong about it.
