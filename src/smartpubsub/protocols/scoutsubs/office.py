"""What all parts of a node's ScoutSubs share: trees, time, whom it suspects, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.publication import Signing
from smartpubsub.protocols.scoutsubs.branches import is_split
from smartpubsub.protocols.scoutsubs.holdings import Holdings
from smartpubsub.protocols.scoutsubs.messages import Bundle, Part, Piece, event_bytes_in
from smartpubsub.protocols.scoutsubs.pieces import in_pieces
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.tree import Role, Tree
from smartpubsub.protocols.scoutsubs.vouching import Vouching
from smartpubsub.seam import CancelTimer, Deliver, Effect, Peer, Send, SetTimer

if TYPE_CHECKING:
    from smartpubsub.protocols.scoutsubs.admitting import Admitting
    from smartpubsub.protocols.scoutsubs.announcing import Announcing
    from smartpubsub.protocols.scoutsubs.branching import Branching
    from smartpubsub.protocols.scoutsubs.copying import Copying
    from smartpubsub.protocols.scoutsubs.following import Following
    from smartpubsub.protocols.scoutsubs.history import History
    from smartpubsub.protocols.scoutsubs.inheriting import Inheriting
    from smartpubsub.protocols.scoutsubs.keeping import Keeping
    from smartpubsub.protocols.scoutsubs.offering import Offering
    from smartpubsub.protocols.scoutsubs.probing import Probing
    from smartpubsub.protocols.scoutsubs.raising import Raising
    from smartpubsub.protocols.scoutsubs.recalling import Recalling
    from smartpubsub.protocols.scoutsubs.seeking import Seeking
    from smartpubsub.protocols.scoutsubs.spreading import Spreading
    from smartpubsub.protocols.scoutsubs.storing import Storing
    from smartpubsub.protocols.scoutsubs.subscribing import Subscribing


INCARNATION_BITS = 28
"""A node's copies of a later incarnation are newer than all those of earlier ones."""


PARTS_MAX = 500
EVENT_BYTES_MAX = 1 << 20
"""How many parts, and bytes of events, go in one bundle, far below what a receiver takes."""


class Office:
    """Where a node's work on ScoutSubs is done, one event at a time, at several desks."""

    seeking: Seeking
    announcing: Announcing
    subscribing: Subscribing
    branching: Branching
    copying: Copying
    raising: Raising
    admitting: Admitting
    following: Following
    keeping: Keeping
    spreading: Spreading
    storing: Storing
    offering: Offering
    probing: Probing
    history: History
    inheriting: Inheriting
    recalling: Recalling

    def __init__(
        self, settings: ScoutSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.settings = settings
        self.kademlia = kademlia
        self.signing = signing
        self.rng = rng
        self.own = kademlia.own
        self.vouching = Vouching(self.own.peer, signing)
        self.incarnation = 0
        self.now = 0
        self.is_ready = False
        """Whether the node has its place, and has back what it forgot in a restart."""
        self.trees: dict[str, Tree] = {}
        self.holdings = Holdings()
        self.refusals: Counter[str] = Counter()
        """What was not what it should be, or beyond a limit, by reason."""
        self.heard_us: dict[Peer, int] = {}
        """When somebody was last heard from."""
        self.has_company = False
        """Whether another node is known to have been there."""
        self._suspects: dict[Peer, int] = {}
        """Who did not answer, and until when it is avoided."""
        self._silent: dict[Peer, int] = {}
        """Who did not answer and was not heard from since, and from when on."""
        self._version = 0
        self._copy_version = 0
        """The highest versions of trees that are forgotten."""
        self._answer_us = settings.patience_us_first // 4
        """How long answers take."""
        self._answer_us_of: dict[Peer, int] = {}
        """Of those that take long: how long theirs take."""
        self._has_measured = False
        self._effects: list[Effect] = []
        self._queues: dict[Peer, list[Part]] = {}
        self._sent_us: dict[Peer, int] = {}
        self._flush_is_set = False

    @property
    def refused(self) -> int:
        """How much was not taken from others."""
        return self.refusals.total()

    # --- what is done ---

    def say(self, peer: Peer, part: Part) -> None:
        """Say something to a peer, together with what else is said to it in this moment."""
        self._queues.setdefault(peer, []).append(self.vouching.signed(part, peer))

    def deliver(self, item: object) -> None:
        """Tell the application something."""
        self._effects.append(Deliver(item))

    def set_timer(self, name: tuple[object, ...], at: int) -> None:
        """Have a timer fire."""
        self._effects.append(SetTimer(("scout", *name), at))

    def cancel_timer(self, name: tuple[object, ...]) -> None:
        """Have a timer not fire."""
        self._effects.append(CancelTimer(("scout", *name)))

    def do(self, effect: Effect) -> None:
        """Have an effect of the overlay carried out."""
        self._effects.append(effect)

    def taken(self) -> list[Effect]:
        """All that is to be done now; what was said to peers a moment ago waits a little."""
        for peer in list(self._queues):
            if (
                self.now - self._sent_us.get(peer, -self.settings.batch_us)
                >= self.settings.batch_us
            ):
                self._send(peer)
        if self._queues and not self._flush_is_set:
            self._flush_is_set = True
            self.set_timer(("flush",), self.now + self.settings.batch_us)
        effects, self._effects = self._effects, []
        return effects

    def flush(self) -> None:
        """Say everything that waits."""
        self._flush_is_set = False
        for peer in list(self._queues):
            self._send(peer)

    def _send(self, peer: Peer) -> None:
        self._sent_us[peer] = self.now
        bundle: list[Part] = []
        size = 0
        for part in self._sendable(self._queues.pop(peer)):
            added = event_bytes_in(part)
            size += added
            is_long = size > EVENT_BYTES_MAX or len(bundle) == PARTS_MAX
            if bundle and (is_long or isinstance(part, Piece)):
                self._effects.append(Send(peer, Bundle(tuple(bundle))))
                bundle, size = [], added
            bundle.append(part)
        self._effects.append(Send(peer, Bundle(tuple(bundle))))

    def _sendable(self, said: Iterable[Part]) -> Iterator[Part]:
        """Parts as they can be sent: those that are too long in pieces, each a message."""
        for part in said:
            yield from in_pieces(part, self.settings.piece_bytes_max)

    # --- who is there ---

    def hear(self, peer: Peer) -> None:
        """Somebody has said something, so it is there."""
        self._look_around()
        self.heard_us[peer] = self.now
        if self._suspects.pop(peer, None) is not None:
            for tree in list(self.trees.values()):
                self.seeking.check(tree)
        if self._silent.pop(peer, None) is not None:
            self.spreading.on_back(peer)

    def is_fresh(self, peer: Peer) -> bool:
        """Whether somebody was heard from just now."""
        return self.now - self.heard_us.get(peer, -self.patience_us) < self.patience_us

    def suspect(self, peer: Peer) -> None:
        """Somebody does not answer."""
        self._suspects[peer] = self.now + self.settings.suspect_us
        self._silent.setdefault(peer, self.now)

    def is_suspect(self, peer: Peer) -> bool:
        """Whether somebody did not answer a short while ago."""
        until = self._suspects.get(peer)
        return until is not None and self.now < until

    def is_silent(self, peer: Peer) -> bool:
        """Whether somebody did not answer and was not heard from since."""
        return peer in self._silent

    @property
    def suspect_count(self) -> int:
        """How many are or were suspected lately."""
        return len(self._suspects)

    def closer(self, tree: Tree) -> Contact | None:
        """The known peer closest to a tree's key, if it is closer than the node."""
        own_distance = self.own.key ^ tree.key
        for contact in self.kademlia.closest_local(tree.name, 1 + self.suspect_count):
            if contact.key ^ tree.key >= own_distance:
                break
            if not self.is_suspect(contact.peer):
                return contact
        return None

    def closest(self, name: bytes, count: int) -> tuple[Contact, ...]:
        """The known peers closest to a name that are not suspected."""
        known = self.kademlia.closest_local(name, count + self.suspect_count)
        return tuple(c for c in known if not self.is_suspect(c.peer))[:count]

    @property
    def is_cut_off(self) -> bool:
        """Whether a node that finds no backups ought to have some: it is not alone in the world."""
        self._look_around()
        return self.settings.backups > 0 and self.has_company

    def _look_around(self) -> None:
        # Who is put out of the table one after the other was there all the same. A client is never
        # in it, and is no company: it keeps nothing.
        self.has_company = self.has_company or len(self.kademlia.table) > 0

    def forget(self) -> None:
        """Forget of peers what does not matter any more."""
        horizon_us = self.now - 2 * self.settings.renew_us
        self.heard_us = {p: at for p, at in self.heard_us.items() if at > horizon_us}
        slow = self._answer_us_of
        self._answer_us_of = {p: us for p, us in slow.items() if p in self.heard_us}
        self._suspects = {p: until for p, until in self._suspects.items() if until > self.now}
        self._silent = {p: at for p, at in self._silent.items() if at > horizon_us}
        just_now_us = self.now - self.settings.batch_us
        self._sent_us = {p: at for p, at in self._sent_us.items() if at > just_now_us}

    # --- patience ---

    def answered_after(self, us: int, tries: int = 1) -> None:
        """Something was answered after a time; slowness is believed sooner than haste."""
        if tries > 1:
            return  # Nobody knows which of them it answers.
        us = min(max(us, 0), self.settings.patience_us_max)
        if self._has_measured:
            self._answer_us += (us - self._answer_us) // (2 if us > self._answer_us else 8)
        else:
            self._answer_us, self._has_measured = us, True

    def probed_after(self, peer: Peer, us: int) -> None:
        """Somebody has answered a probe after a time, perhaps when nobody waited any more."""
        self.answered_after(us)
        before = self._answer_us_of.pop(peer, 0)
        # Up quickly and down slowly: who is late now may be later next time.
        usual_us = before + (us - before) // (2 if us > before else 8)
        if 4 * usual_us > self.settings.patience_us_max:
            self._answer_us_of[peer] = usual_us

    @property
    def patience_us(self) -> int:
        """How long to wait for an answer."""
        settings = self.settings
        return min(settings.patience_us_max, max(settings.patience_us_min, 4 * self._answer_us))

    def patience_us_with(self, peer: Peer) -> int:
        """How long to wait for somebody's answer: longer if that one's are known to take long.

        A link that is full delays everything, and to give up on who is behind it would only make
        for more to send.
        """
        return max(self.patience_us, 4 * self._answer_us_of.get(peer, 0))

    # --- trees ---

    def advance(self, tree: Tree) -> bool:
        """Take note of what has changed in what a tree shows above; whether something has."""
        backups = self.copying.backups_to_tell(tree)
        claim = self.branching.claim(tree)
        return tree.advance(backups, claim, redirects=self.settings.redirects)

    def tree(self, attribute: str) -> Tree | None:
        """The tree of an attribute, a new one if need be; None if there is no room for it."""
        tree = self.trees.get(attribute)
        if tree is None:
            if len(self.trees) >= self.settings.tree_count_max:
                self.refusals["trees"] += 1
                return None
            # Higher than those of a tree of this attribute that was there before and forgotten.
            copy_version = max(self._copy_version, self.incarnation << INCARNATION_BITS)
            tree = Tree(attribute, self._version, copy_version, self.holdings)
            self.trees[attribute] = tree
            tree.used_us = self.now
            tree.stage = self.storing.stage_of(attribute)
            self.seeking.seek(tree)
        return tree

    def forget_trees(self) -> None:
        """Forget trees that nobody has wanted anything of for long."""
        horizon_us = self.now - 2 * self.settings.renew_us
        for tree in list(self.trees.values()):
            if tree.used_us < horizon_us and self._is_dispensable(tree):
                del self.trees[tree.attribute]
                self.storing.drop_stage(tree.attribute)
                self._version = max(self._version, tree.version)
                self._copy_version = max(self._copy_version, tree.copy_version)

    def _is_dispensable(self, tree: Tree) -> bool:
        attribute = tree.attribute
        return (
            tree.is_idle
            and not (tree.role is Role.ROOT and is_split(tree.stage))
            and not self.announcing.is_leaving(attribute)
            and not self.admitting.waits_for(attribute)
            and not self.spreading.all_at_root(attribute)
        )
