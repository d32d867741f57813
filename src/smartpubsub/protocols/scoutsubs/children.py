"""Whether a node takes somebody as a child, and where it sends those that it does not take."""

from __future__ import annotations

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.scoutsubs.child import Child
from smartpubsub.protocols.scoutsubs.messages import WHOLE, Announce
from smartpubsub.protocols.scoutsubs.office import Office
from smartpubsub.protocols.scoutsubs.tree import Tree
from smartpubsub.seam import Peer


def shortcut(office: Office, tree: Tree, child: Contact, part: Announce) -> Contact | None:
    """Where to send what is for a child, if it offers that: to somebody below it."""
    direct = part.direct if office.settings.redirects else None
    if direct is not None and direct.key ^ tree.key <= child.key ^ tree.key:
        office.refusals["shortcut"] += 1
        return None
    return direct


def has_room(office: Office, tree: Tree, child: Child | None, peer: Peer, part: Announce) -> bool:
    """Whether there is room for what a child announces."""
    settings, holdings = office.settings, office.holdings
    if child is None and len(tree.children) >= settings.child_count_max:
        return False
    there = len(child.filters) if child is not None else 0
    after = len(part.added)
    if child is not None and part.base != WHOLE:
        gone = sum(predicate in child.filters for predicate in dict.fromkeys(part.removed))
        after += there - gone
    is_more = after > there  # What makes room is never refused.
    if is_more and holdings.filters_of(peer) - there + after > settings.filter_count_max:
        return False
    is_new = not there and after > 0
    return not is_new or holdings.trees_of(peer) < settings.attribute_count_per_peer_max


def somebody_else(office: Office, tree: Tree, newcomer: Contact) -> Contact | None:
    """A child that a newcomer can go to, if there are enough children already.

    So no node has much more to send than others, however popular an attribute is. The child has
    to be closer to the key than the newcomer, as all parents are.
    """
    fan_out_max = office.settings.fan_out_max
    if not fan_out_max:
        return None
    live = tree.live_children()
    if len(live) < fan_out_max:
        return None
    distance = newcomer.key ^ tree.key
    closer = [
        child.contact
        for child in live
        if child.contact.key ^ tree.key < distance and not office.is_suspect(child.contact.peer)
    ]
    return closer[newcomer.key % len(closer)] if closer else None
