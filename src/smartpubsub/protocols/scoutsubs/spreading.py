"""From the rendezvous down: who gets an event, and whether everybody has it.

Each node sends an event to the children with a matching filter and confirms it upward when all of
them have. Only the rendezvous sends it again, to those that do not confirm; whoever gets it again
on the way does the same, and tries the backups of children that do not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smartpubsub.protocols.publication import Publication
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.scoutsubs.branches import others_of
from smartpubsub.protocols.scoutsubs.child import Child, Former
from smartpubsub.protocols.scoutsubs.messages import NOBODY, Confirm, NoCopy, Notify, Offer
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import EventKey, Opened, Target
from smartpubsub.protocols.scoutsubs.tree import Tree
from smartpubsub.protocols.scoutsubs.waiting import Waiting
from smartpubsub.protocols.scoutsubs.window import Window
from smartpubsub.seam import Peer


class Spreading:
    """A node's part in getting events to everybody."""

    def __init__(self, office: Office) -> None:
        settings = office.settings
        self._office = office
        self._open: dict[EventKey, dict[Peer, Opened]] = {}
        """By event and attribute, and by whose children they are for."""
        self._delivered = Window(settings.seen_us, settings.seen_count_max)
        self._confirmation = Waiting(settings.check_us_min // 4)

    # --- what is open ---

    @property
    def open_count(self) -> int:
        """How many events are not confirmed."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether no more events can be taken until some are confirmed."""
        return self.open_count >= self._office.settings.record_count_max

    def at_root(self, key: EventKey) -> Opened | None:
        """An event that is in the care of this node."""
        opened = self._open.get(key, {}).get(NOBODY)
        return opened if opened is not None and opened.upstream is None else None

    def all_at_root(self, attribute: str | None = None) -> list[Opened]:
        """All events that are in the care of this node, or those of one attribute."""
        found = [self.at_root(key) for key in self._open if attribute in (None, key[1])]
        return [opened for opened in found if opened is not None]

    def is_unacknowledged(self, key: EventKey) -> bool:
        """Whether an event is in this node's care but not yet safe."""
        opened = self.at_root(key)
        return opened is not None and not opened.is_acknowledged

    def keep_at_root(self, opened: Opened) -> None:
        """Take an event into care, also if nobody is to confirm it, until it is recorded."""
        self._open.setdefault(opened.key, {})[NOBODY] = opened
        self._office.branching.on_opened(opened)
        self._wait(opened)

    # --- down ---

    def on_notify(self, peer: Peer, part: Notify) -> None:
        """An event comes down."""
        office = self._office
        if not office.is_ready:
            return  # Whom it is for may not be known yet; it will come again.
        key = (part.event.id, part.attribute)
        opened = self._open.get(key, {}).get(part.on_behalf)
        if opened is not None:
            if opened.upstream is None:
                self._confirm(peer, key, NOBODY)  # It is in this node's care already.
                return
            opened.upstream = peer
            if part.is_resend and office.now - opened.again_us >= office.patience_us:
                self._send_again(opened)
        elif part.on_behalf == NOBODY and (
            part.attribute not in office.trees or key in self._delivered
        ):
            self._confirm(peer, key, NOBODY)
        elif self._delivered.is_over(key):
            office.refusals["replay"] += 1
        elif self.is_full:
            office.refusals["events"] += 1  # What is not confirmed comes again.
        elif not office.signing.is_signed(part.event):
            office.refusals["signature"] += 1
        elif part.on_behalf != NOBODY:
            self._stand_in(peer, part)
        else:
            tree = office.trees[part.attribute]
            # On its way it may have been lost for long before it came.
            is_late = part.is_resend or office.now - part.event.created_us > office.patience_us
            late_us = 2 * (office.settings.renew_us if is_late else office.patience_us)
            former = tree.former_interested(part.event.predicate, office.now - late_us)
            self.spread(tree, part.event, part.hops, peer, NOBODY, former=former)

    def spread(
        self,
        tree: Tree,
        event: Publication,
        hops: int,
        upstream: Peer | None,
        excluded: Peer,
        *,
        is_resend: bool = False,
        former: Mapping[Peer, Former] = MappingProxyType({}),
    ) -> Opened:
        """Deliver an event here and send it to all interested children, present and former."""
        office = self._office
        own, children = tree.interested(event.predicate)
        is_first = self._delivered.add((event.id, tree.attribute), office.now)
        # If its publisher did not hear that it was admitted, it can come by another branch again.
        others = [(event.id, name) for name in others_of(tree.attribute)]
        if is_first and own and not any(key in self._delivered for key in others):
            office.recalling.deliver(Delivery(event, own, hops))
        targets = {
            peer: Target(tree.children[peer].backups) for peer in children if peer != excluded
        }
        now = office.now
        opened = Opened(event, tree.attribute, hops, upstream, NOBODY, targets, now, now)
        targets |= {peer: Target(child.backups) for peer, child in former.items()}
        for peer in list(targets):
            if is_resend or office.is_silent(peer) or peer in former:
                self._send_to(opened, peer)
            else:
                self._send_first(opened, tree.children[peer])
        self._keep(opened)
        office.offering.keep(event, hops)
        return opened

    def send_late(
        self, tree: Tree, event: Publication, hops: int, began_us: int, peer: Peer
    ) -> None:
        """Send an event of this root to a child that was not there when it was spread."""
        opened = self.at_root((event.id, tree.attribute))
        if opened is None:
            now = self._office.now
            opened = Opened(event, tree.attribute, hops, None, NOBODY, {}, now, began_us)
            opened.is_acknowledged = True
        if peer in tree.interested(event.predicate)[1] and peer not in opened.targets:
            opened.targets[peer] = Target(tree.children[peer].backups)
            self.keep_at_root(opened)
            self._send_to(opened, peer)

    def _keep(self, opened: Opened) -> None:
        if not self._office.settings.is_reliable:
            return
        if opened.targets:
            self._open.setdefault(opened.key, {})[opened.on_behalf] = opened
        elif opened.upstream is not None:
            self._confirm(opened.upstream, opened.key, opened.on_behalf)

    def _stand_in(self, peer: Peer, part: Notify) -> None:
        """Pass an event on for somebody, by the copy that is kept of its children."""
        office = self._office
        kept = office.copying.kept.get((part.on_behalf, part.attribute))
        if kept is None:
            office.say(peer, NoCopy(part.event.id, part.attribute, part.on_behalf))
            return
        wanting = [
            child
            for child in kept.children.values()
            if any(wanted.matches(part.event.predicate) for wanted in child.filters)
        ]
        targets = {child.contact.peer: Target(child.backups) for child in wanting}
        now = office.now
        opened = Opened(
            part.event, part.attribute, part.hops, peer, part.on_behalf, targets, now, now
        )
        self._keep(opened)
        self._send_again(opened)

    # --- sending ---

    def _send_first(self, opened: Opened, child: Child) -> None:
        """Send an event to a child for the first time, straight past it if it has offered that.

        What goes another way than what is still under way could overtake that, so a shortcut is
        taken only when everything before is confirmed, or if nobody confirms, has had the time to
        arrive; and after one is taken back, events wait.
        """
        by_child = child.contact.peer
        path = child.direct.peer if child.direct else by_child
        if path != child.path and not self._office.is_silent(child.path):
            ago_us = self._office.now - child.sent_us
            has_arrived = self._office.settings.is_reliable or ago_us >= self._office.patience_us
            if child.path == by_child and (child.outstanding or not has_arrived):
                path = by_child
            elif child.path != by_child and child.outstanding:
                child.held.append(opened.key)
                return
        self._send_by(opened, child, path)

    def _send_by(self, opened: Opened, child: Child, path: Peer) -> None:
        if self._office.settings.is_reliable:
            child.outstanding += 1
        child.path, child.sent_us = path, self._office.now
        event, attribute = opened.event, opened.attribute
        goes_straight = path == (child.direct or child.contact).peer
        if goes_straight and self._office.offering.is_to_be_offered(event, child):
            self._office.say(path, Offer(event.id, attribute, event.predicate))
        else:
            self._office.say(path, Notify(event, attribute, opened.hops + 1, False, NOBODY))

    def _send_to(self, opened: Opened, peer: Peer) -> None:
        """Send an event to a child again, and in further tries also to one of its backups."""
        office = self._office
        target = opened.targets[peer]
        part = Notify(opened.event, opened.attribute, opened.hops + 1, True, NOBODY)
        if peer == office.own.peer:  # Standing in for its parent, which has it for a child.
            self.on_notify(peer, part)
            return
        self._let_go(opened.attribute, peer)
        if not office.is_silent(peer):
            office.say(peer, part)
        office.probing.probe(peer)  # Who does not answer is sent nothing, until it is back.
        if target.backups and (office.is_silent(peer) or self._is_lost_on(peer, opened, target)):
            backup = target.backups[target.tries % len(target.backups)].peer
            if backup == office.own.peer:
                self.on_notify(backup, part._replace(on_behalf=peer))
            else:
                office.say(backup, part._replace(on_behalf=peer))
        target.tries += 1

    def _is_lost_on(self, peer: Peer, opened: Opened, target: Target) -> bool:
        """Whether a child seems not to get what it is sent; one that is heard from may be slow."""
        is_heard = self._office.heard_us.get(peer, -1) > opened.sent_us
        return target.tries > (self._office.settings.tries_max if is_heard else 0)

    def _let_go(self, attribute: str, peer: Peer) -> None:
        """What has to be sent again does not hold up what comes after it."""
        tree = self._office.trees.get(attribute)
        child = tree.children.get(peer) if tree else None
        if child is not None:
            child.outstanding = 0
            self._release_held(child)

    def _send_again(self, opened: Opened) -> None:
        """Send an event to those who have not confirmed it, and not again for what comes of it."""
        opened.again_us = self._office.now
        for peer in list(opened.targets):
            if peer in opened.targets:  # Standing in for somebody, the node may confirm to itself.
                self._send_to(opened, peer)

    # --- confirming ---

    def _confirm(self, peer: Peer, key: EventKey, on_behalf: Peer) -> None:
        if not self._office.settings.is_reliable:
            return
        part = Confirm(*key, on_behalf)
        if peer == self._office.own.peer:
            self.on_confirm(peer, part)
        else:
            self._office.say(peer, part)

    def on_confirm(self, peer: Peer, part: Confirm) -> None:
        """Somebody has an event, and so have all below it."""
        for opened in list(self._open.get((part.id, part.attribute), {}).values()):
            tree = self._office.trees.get(opened.attribute)
            child = self._confirmed_child(opened, tree, peer, part.on_behalf)
            if child is None:
                continue
            if opened.upstream is None:
                us = self._office.now - opened.sent_us
                self._confirmation.on_answer(us, was_repeated=opened.tries > 0)
            del opened.targets[child]
            if tree is not None and child in tree.children:
                self._one_less_outstanding(tree.children[child], tree.attribute)
            self.conclude(opened)

    def _confirmed_child(
        self, opened: Opened, tree: Tree | None, peer: Peer, on_behalf: Peer
    ) -> Peer | None:
        """The child that a confirmation stands for: itself, one that was passed by, or one that

        the sender stands in for, if it is one of those that were asked to.
        """
        if on_behalf != NOBODY:
            target = opened.targets.get(on_behalf)
            asked = (*target.backups, self._office.own) if target is not None else ()
            return on_behalf if any(contact.peer == peer for contact in asked) else None
        if peer in opened.targets:
            return peer
        for target_peer in opened.targets:
            child = tree.children.get(target_peer) if tree else None
            if child is not None and child.path == peer:
                return target_peer
        return None

    def _one_less_outstanding(self, child: Child, attribute: str) -> None:
        child.outstanding = max(0, child.outstanding - 1)
        if child.outstanding == 0:
            self._release_held(child)

    def _release_held(self, child: Child) -> None:
        held, child.held = child.held, []
        for key in held:
            opened = self._open.get(key, {}).get(NOBODY)
            if opened is not None and child.contact.peer in opened.targets:
                self._send_first(opened, child)

    def conclude(self, opened: Opened) -> None:
        """Tell whoever is above if everybody below has an event."""
        if opened.targets or opened.recording or opened.is_at_risk:
            return
        opens = self._open.get(opened.key, {})
        opens.pop(opened.on_behalf, None)
        if not opens:
            self._open.pop(opened.key, None)
        if opened.upstream is not None:
            self._confirm(opened.upstream, opened.key, opened.on_behalf)
        else:
            self._office.cancel_timer(("check", *opened.key))
            self._office.branching.on_concluded(opened)
            self._office.admitting.on_complete(opened)

    def on_no_copy(self, peer: Peer, part: NoCopy) -> None:
        """A backup cannot help; the next try goes to another one."""
        for opened in self._open.get((part.id, part.attribute), {}).values():
            target = opened.targets.get(part.on_behalf)
            if target is not None:
                target.backups = tuple(c for c in target.backups if c.peer != peer)

    # --- again ---

    def _wait(self, opened: Opened) -> None:
        office, settings = self._office, self._office.settings
        # Who is gone is sent what it has missed when it is back, and need not be tried for often.
        is_for_the_gone = not opened.recording and all(map(office.is_silent, opened.targets))
        most_us = settings.renew_us // 4 if is_for_the_gone else settings.check_us_max
        least_us = settings.check_us_min
        wait_us = self._confirmation.wait_us(opened.tries, least_us=least_us, most_us=most_us)
        office.set_timer(("check", *opened.key), office.now + wait_us)

    def on_check(self, key: EventKey) -> None:
        """An event in this node's care is not confirmed by all in time."""
        opened = self.at_root(key)
        if opened is None:
            return
        office = self._office
        opened.tries += 1
        office.branching.on_tried(opened)
        if all(not office.is_silent(peer) for peer in opened.targets):
            self._confirmation.on_silence(opened.sent_us, office.now)
        if office.now - opened.began_us > 2 * office.settings.renew_us:
            opened.targets.clear()  # Whoever has not come back by now has lapsed.
            opened.recording.clear()
            opened.is_at_risk = opened.wants_all = False
            self.conclude(opened)
            return
        for peer in opened.recording:
            office.say(peer, opened.record(office.now))
            office.probing.probe(peer)
        self._send_again(opened)
        self._wait(opened)

    def tick(self) -> None:
        """Once in a while: forget what nobody above has asked about for long."""
        oldest = self._office.now - 2 * self._office.settings.renew_us
        for key, opens in list(self._open.items()):
            for whose, opened in list(opens.items()):
                if opened.upstream is not None and opened.sent_us < oldest:
                    del opens[whose]
            if not opens:
                del self._open[key]

    def on_return(self, tree: Tree, child: Child) -> None:
        """A child has announced: what it has not confirmed may have been lost with its memory."""
        self._send_what_is_open(child.contact.peer, tree.attribute)

    def on_back(self, peer: Peer) -> None:
        """Somebody who was silent is back: it gets what it has missed."""
        self._send_what_is_open(peer)

    def _send_what_is_open(self, peer: Peer, attribute: str | None = None) -> None:
        for opened in self._all_for(peer):
            if opened.targets[peer].tries and attribute in (None, opened.attribute):
                part = Notify(opened.event, opened.attribute, opened.hops + 1, True, NOBODY)
                self._office.say(peer, part)

    def on_silent(self, peer: Peer) -> None:
        """A child is gone: those below it get what is open by way of its backups."""
        for opened in self._all_for(peer):
            if opened.targets[peer].backups:
                self._send_to(opened, peer)

    def _all_for(self, peer: Peer) -> list[Opened]:
        every = [opened for opens in self._open.values() for opened in opens.values()]
        return [opened for opened in every if peer in opened.targets]
