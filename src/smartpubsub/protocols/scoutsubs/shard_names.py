"""The keys that a hot attribute is split over: its own, and those of its further shards.

A shard is a tree like any other, under its own name; every subscriber of the attribute is in all of
them. The publisher's id decides which shard carries an event, so each publisher's events keep their
order.
"""

from __future__ import annotations

import re
from functools import lru_cache

from smartpubsub.kademlia.keys import key_of
from smartpubsub.seam import Peer

SHARDS = 4
"""The number of keys that a hot attribute is split over, its own included."""

NO_EPOCH = 0
FIRST_EPOCH = 1
"""An attribute is whole in odd epochs and split in even ones. Epochs only grow, so of two epochs
the higher is the later."""

EPOCH_MAX = 1 << 62
"""More than ever occur, and small enough to be encoded."""

_NUMBERED = re.compile(r"/[0-9]\Z")


@lru_cache(1 << 14)
def tree_name(attribute: str, shard: int = 0) -> str:
    """The name of an attribute's tree, or of one of its shards.

    >>> tree_name("surf"), tree_name("surf", 3)
    ('surf', 'surf/3')

    An attribute whose name looks like a shard is escaped.

    >>> tree_name("surf/3")
    'surf/3/0'
    """
    return f"{attribute}/{shard}" if shard or _NUMBERED.search(attribute) else attribute


@lru_cache(1 << 14)
def attribute_of(name: str) -> str:
    """The attribute that a tree belongs to.

    >>> attribute_of("surf"), attribute_of("surf/3"), attribute_of("surf/3/0")
    ('surf', 'surf', 'surf/3')
    """
    return name[:-2] if _NUMBERED.search(name) else name


@lru_cache(1 << 14)
def base_name(name: str) -> str:
    """The name of the attribute's first tree.

    >>> base_name("surf/3"), base_name("surf"), base_name("surf/3/0")
    ('surf', 'surf', 'surf/3/0')
    """
    return tree_name(attribute_of(name)) if _NUMBERED.search(name) else name


@lru_cache(1 << 14)
def shard_names(base: str) -> tuple[str, ...]:
    """The names of all shards of an attribute, the first one included.

    >>> shard_names("surf")
    ('surf', 'surf/1', 'surf/2', 'surf/3')
    """
    return tuple(tree_name(attribute_of(base), shard) for shard in range(SHARDS))


@lru_cache(1 << 14)
def sibling_names(name: str) -> tuple[str, ...]:
    """The names of the other shards of the same attribute."""
    return tuple(other for other in shard_names(base_name(name)) if other != name)


def shard_for(base: str, publisher: Peer) -> str:
    """The name of the shard that carries a publisher's events."""
    return shard_names(base)[key_of(publisher) % SHARDS]


def is_split(epoch: int) -> bool:
    """Whether an attribute is split in an epoch."""
    return epoch > FIRST_EPOCH and epoch % 2 == 0
