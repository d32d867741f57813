"""From the publisher up to the rendezvous, which takes an event into its care.

The rendezvous admits a publisher's events in the publisher's order, starts to spread an event at
once, has its backups record it, and only then acknowledges it.
"""

from __future__ import annotations

from smartpubsub.kademlia.keys import key_of
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.scoutsubs.messages import (
    NOBODY,
    Admitted,
    Completed,
    Done,
    Holder,
    Raise,
    Record,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.opened import MS, EventKey, Opened
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.protocols.scoutsubs.window import Window
from smartpubsub.protocols.seen import Seen
from smartpubsub.seam import Peer


class Admitting:
    """Events on their way up, those in the node's care, and those it keeps for others."""

    def __init__(self, office: Office) -> None:
        settings = office.settings
        self._office = office
        self._admitted = Window(settings.seen_us, settings.seen_count_max)
        self._disowned: Seen[EventKey] = Seen(settings.suspect_us, settings.seen_count_max)
        """Events that were passed on before they were acknowledged; they may come back."""
        self._publishers: Seen[tuple[Peer, str]] = Seen(settings.seen_us, settings.seen_count_max)
        """Whose events of which attributes have been admitted here."""
        self._held: dict[str, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until it is known who the rendezvous is."""
        self._doubtful: dict[Peer, list[tuple[Raise, Peer | None]]] = {}
        """Events that wait until it is known whether the next hop is there."""

    # --- on the way up ---

    def on_raise(self, peer: Peer, part: Raise) -> None:
        """Somebody passes an event up."""
        self.pass_up(part, peer)

    def pass_up(self, part: Raise, came_from: Peer | None) -> Peer | None:
        """Send an event on towards its rendezvous, or admit it; to whom it went."""
        office = self._office
        tree = office.trees.get(part.attribute)
        if tree is None:
            # Whoever only passes events on needs no tree.
            hop = office.closer(Tree(part.attribute))
            if hop is None:
                tree = office.tree(part.attribute)
        else:
            hop = tree.parent if tree.role is Role.CHILD else None
        if tree is not None and tree.role is Role.ROOT:
            moved = office.branching.moved(tree, part)
            if moved is not None:
                return self.pass_up(moved, came_from)
            self._admit(tree, part, came_from)
        elif hop is None:
            self._hold(part, came_from)
        elif part.is_retry and not office.is_fresh(hop.peer):
            self._doubt(hop.peer, part, came_from)
            return hop.peer
        else:
            if not office.settings.is_reliable and tree is not None:
                office.spreading.spread(tree, part.event, part.hops, None, came_from or NOBODY)
            office.say(hop.peer, part._replace(hops=part.hops + 1))
            return hop.peer
        return None

    def _doubt(self, hop: Peer, part: Raise, came_from: Peer | None) -> None:
        """The next hop may not be there, and whoever would be next has to find out for itself.

        So all those get the event now. Who fails is often not alone, and a node that may have to
        take a place asks at the same time for all that come before it.
        """
        office = self._office
        if self._has_room_to_wait():
            self._doubtful.setdefault(hop, []).append((part, came_from))
        office.probing.probe(hop)
        name = part.attribute.encode()
        key = key_of(name)
        own_distance = office.own.key ^ key
        around = office.closest(name, office.settings.backups + 1)
        is_far = bool(around) and around[-1].key ^ key < own_distance
        for contact in around:
            if not is_far and contact.key ^ key < own_distance:
                office.probing.probe(contact.peer)
            elif is_far and contact.peer not in (hop, came_from):
                office.say(contact.peer, part._replace(hops=part.hops + 1))

    @property
    def waiting_count(self) -> int:
        """How many events wait for something on their way up."""
        waiting = [*self._held.values(), *self._doubtful.values()]
        return len(self._office.following) + sum(map(len, waiting))

    def _has_room_to_wait(self) -> bool:
        """Whether one more event can wait; one that cannot is raised again by its publisher."""
        if self.waiting_count < self._office.settings.record_count_max:
            return True
        self._office.refusals["waiting events"] += 1
        return False

    def _hold(self, part: Raise, came_from: Peer | None) -> None:
        if self._has_room_to_wait():
            self._held.setdefault(part.attribute, []).append((part, came_from))

    def on_heard(self, peer: Peer) -> None:
        """Somebody is there, or is known not to be: go on with what has waited for that."""
        for part, came_from in self._doubtful.pop(peer, ()):
            self.pass_up(part, came_from)

    def waits_for(self, attribute: str) -> bool:
        """Whether events wait until it is known who the rendezvous is."""
        return attribute in self._held

    def release(self, tree: Tree) -> None:
        """It is known who is above: go on with what has waited for that."""
        if tree.role in (Role.ROOT, Role.CHILD):
            for part, came_from in self._held.pop(tree.attribute, ()):
                self.pass_up(part, came_from)

    # --- at the rendezvous ---

    def _admit(self, tree: Tree, part: Raise, came_from: Peer | None) -> None:
        office = self._office
        id = part.event.id
        if (id, part.attribute) in self._admitted and (id, part.attribute) not in self._disowned:
            if not office.spreading.is_unacknowledged((id, part.attribute)):
                self._answer(id, part.attribute)
            if part.wants_all and office.spreading.at_root((id, part.attribute)) is None:
                self._tell_publisher(Completed(id, part.attribute))
        elif not office.signing.is_signed(part.event):
            office.refusals["signature"] += 1
        elif self._admitted.is_over((id, part.attribute)):
            office.refusals["replay"] += 1
            self._answer(id, part.attribute, "it is older than what is known; publish it again")
        elif self._began_us(part.age_ms) <= office.now - 2 * office.settings.renew_us:
            office.refusals["old events"] += 1
            self._answer(id, part.attribute, "it was under way for too long; publish it again")
        elif office.spreading.is_full or office.storing.is_full:
            office.refusals["events"] += 1
            self._answer(id, part.attribute, "the rendezvous has too many open events; try later")
        elif self._has_to_wait(part):
            self._wait_for_previous(part)
        else:
            self._take(tree, part, came_from)
            office.following.on_admitted((id, part.attribute))

    def has_admitted(self, key: EventKey) -> bool:
        """Whether an event has been admitted here, by way of a tree."""
        return key in self._admitted

    def _has_to_wait(self, part: Raise) -> bool:
        id = part.event.id
        before = (id._replace(number=part.previous), part.attribute)
        is_known = before in self._admitted or self._office.following.is_late(before)
        # What comes after itself, whoever says so, would be waited for without end.
        return 0 < part.previous < id.number and not is_known

    def _wait_for_previous(self, part: Raise) -> None:
        office = self._office
        if not office.following.is_waited_for(part) and self._has_room_to_wait():
            wait_us = min(office.settings.hold_us_max, 2 * office.patience_us)
            if (part.event.id.publisher, part.attribute) not in self._publishers:
                # A new rendezvous does not know what came before, and most probably it has come.
                wait_us = min(wait_us, office.patience_us // 2)
            office.following.wait(part, wait_us)

    def _take(self, tree: Tree, part: Raise, came_from: Peer | None) -> None:
        office = self._office
        event = part.event
        tree.used_us = office.now
        self._admitted.add((event.id, part.attribute), office.now)
        self._publishers.add((event.id.publisher, part.attribute), office.now)
        began_us = self._began_us(part.age_ms)
        tree.recent.append((part._replace(previous=0, is_retry=True), began_us))
        # In unreliable variants a child that passes an event up has sent it down already.
        is_below = not office.settings.is_reliable and came_from in tree.children
        excluded = came_from if is_below and came_from else NOBODY
        opened = office.spreading.spread(tree, event, part.hops, None, excluded)
        copies = len(opened.targets) + office.settings.backups
        office.branching.warm(tree, event.id.publisher, copies)
        if office.settings.is_reliable:
            self._care_for(opened, part)
        else:
            self._answer(event.id, part.attribute)

    def _began_us(self, age_ms: int) -> int:
        """When an event was published that is so old."""
        return self._office.now - age_ms * MS

    def _care_for(self, opened: Opened, part: Raise | Record) -> None:
        """Have an event recorded, and acknowledge it after that."""
        office = self._office
        opened.wants_all = part.wants_all
        opened.began_us = self._began_us(part.age_ms)
        office.storing.keep_record(opened.record(office.now), office.own.peer)
        office.history.keep(opened.event, opened.attribute)
        self._record(opened)
        office.spreading.keep_at_root(opened)
        self._acknowledge_if_recorded(opened)

    def _record(self, opened: Opened) -> None:
        """Have an event kept by those backups that do not keep it."""
        office = self._office
        for backup in office.closest(opened.attribute.encode(), office.settings.backups):
            if backup.peer not in opened.recording and backup.peer not in opened.recorded:
                opened.recording[backup.peer] = None
                office.say(backup.peer, opened.record(office.now))
        is_alone = not opened.recording and not opened.recorded
        opened.is_at_risk = is_alone and office.is_cut_off

    def _answer(self, id: EventId, attribute: str, refusal: str = "") -> None:
        self._tell_publisher(Admitted(id, attribute, refusal))

    def _tell_publisher(self, part: Admitted | Completed) -> None:
        office, publisher = self._office, part.id.publisher
        if publisher != office.own.peer:
            office.say(publisher, part)
        elif isinstance(part, Completed):
            office.raising.on_completed(publisher, part)
        else:
            office.raising.on_admitted(publisher, office.vouching.signed(part, publisher))

    def on_recorded(self, peer: Peer, part: Recorded) -> None:
        """A backup keeps an event, or cannot."""
        opened = self._office.spreading.at_root((part.id, part.attribute))
        if opened is None or peer not in opened.recording:
            return
        del opened.recording[peer]
        if not part.is_full:
            opened.recorded[peer] = None
            opened.holders[peer] = part.signature
            opened.is_at_risk = False
        elif not opened.is_acknowledged:  # Otherwise it is asked again before long.
            opened.is_acknowledged = True
            self._office.refusals["records"] += 1
            reason = "a backup of the rendezvous has too many open events; try later"
            self._answer(part.id, part.attribute, reason)
        self._acknowledge_if_recorded(opened)

    def _acknowledge_if_recorded(self, opened: Opened) -> None:
        if not opened.recording and not opened.is_at_risk:
            if not opened.is_acknowledged:
                opened.is_acknowledged = True
                holders = tuple(Holder(*item) for item in opened.holders.items())
                self._tell_publisher(Admitted(*opened.key, "", holders=holders))
            self._office.spreading.conclude(opened)

    def on_complete(self, opened: Opened) -> None:
        """Everybody has confirmed an event."""
        office = self._office
        id, attribute = opened.event.id, opened.attribute
        office.history.on_done(opened.key)
        keeping = dict.fromkeys(opened.recorded)
        for backup in office.closest(attribute.encode(), office.settings.backups):
            keeping[backup.peer] = None
        for peer in keeping:
            office.say(peer, Done(id, attribute))
        if opened.wants_all:
            self._tell_publisher(Completed(id, attribute))

    def records_of(self, attribute: str) -> tuple[Record, ...]:
        """The events of an attribute that this node knows to be open."""
        office = self._office
        own = [opened.record(office.now) for opened in office.spreading.all_at_root(attribute)]
        return (*own, *office.keeping.records_of(attribute))

    # --- taking each other's place ---

    def on_silent(self, peer: Peer) -> None:
        """Somebody is gone, and records nothing."""
        for opened in self._office.spreading.all_at_root():
            was_recording = opened.recording.pop(peer, 0) is None
            if opened.recorded.pop(peer, 0) is None or was_recording:
                self._record(opened)
                self._acknowledge_if_recorded(opened)
        self.on_heard(peer)

    def on_restarted(self, peer: Peer) -> None:
        """Somebody has started anew and has forgotten what it kept."""
        for opened in self._office.spreading.all_at_root():
            if opened.recorded.pop(peer, 0) is None:
                self._record(opened)

    def take_over(self, tree: Tree, records: tuple[Record, ...]) -> None:
        """Bring to an end what a former rendezvous had begun."""
        office = self._office
        oldest = office.now - 2 * office.settings.renew_us
        for part in records:
            key = (part.event.id, part.attribute)
            if office.spreading.is_full:
                office.refusals["events"] += 1
                continue  # It stays where it is kept, and there may be room later.
            office.keeping.forget(key)
            if self._began_us(part.age_ms) <= oldest:
                continue  # Whoever has not got it by now has lapsed.
            if not office.signing.is_signed(part.event):
                office.refusals["signature"] += 1
            elif self._admitted.add(key, office.now):
                opened = office.spreading.spread(
                    tree, part.event, part.hops, None, NOBODY, is_resend=True
                )
                self._care_for(opened, part)

    def tick(self) -> None:
        """Once in a while: see whether what is in this node's care is safe."""
        office = self._office
        for opened in office.spreading.all_at_root():
            if opened.is_at_risk:
                # Whoever was cut off may not be the rendezvous any more, or never was.
                office.seeking.verify(office.trees[opened.attribute])
            else:
                self._record(opened)
                self._acknowledge_if_recorded(opened)

    def on_proved(self, tree: Tree) -> None:
        """The node is the rendezvous, so what could not be recorded can be now, if anywhere."""
        for opened in self._office.spreading.all_at_root(tree.attribute):
            if opened.is_at_risk:
                self._record(opened)
                self._acknowledge_if_recorded(opened)

    def on_moved(self, tree: Tree, peer: Peer) -> None:
        """A child has lost its parent: what is open may have been lost on the way by that one."""
        for opened in self._office.spreading.all_at_root(tree.attribute):
            event, hops, began_us = opened.event, opened.hops, opened.began_us
            self._office.spreading.send_late(tree, event, hops, began_us, peer)

    def share_with(self, tree: Tree, peer: Peer, root_ms: int) -> None:
        """A child was another rendezvous for so long: it gets what was admitted here meanwhile.

        Before that it may have been admitted here while those below the child were below this node.
        """
        oldest = self._began_us(root_ms) - self._office.settings.patience_us_max
        for part, began_us in list(tree.recent):
            if began_us > oldest:
                self._office.spreading.send_late(tree, part.event, part.hops, began_us, peer)

    def hand_over(self, tree: Tree) -> None:
        """Somebody else is the rendezvous now, and perhaps was all the time.

        It gets what was admitted here lately, also what those that this node knows of have: it may
        know of others, and whoever gets an event again delivers it once.
        """
        oldest = self._office.now - 2 * self._office.settings.renew_us
        for part, began_us in tree.recent:
            if began_us > oldest:
                age_ms = (self._office.now - began_us) // MS
                self.pass_up(part._replace(age_ms=age_ms), None)
        tree.recent.clear()
        for opened in self._office.spreading.all_at_root(tree.attribute):
            if not opened.is_acknowledged:
                self._disowned.add(opened.key, self._office.now)
            opened.is_acknowledged = True  # Which is the other's business from here on.
            opened.is_at_risk = False
            self._office.spreading.conclude(opened)
