"""The keys that a hot attribute is spread over: its own, and those of its branches.

A branch is a tree like any other, under a name of its own, with all who want something of the
attribute in it. Which branch brings an event depends on who has published it, so that each
publisher's events keep their order.
"""

from __future__ import annotations

import re
from functools import lru_cache

from smartpubsub.kademlia.keys import key_of
from smartpubsub.seam import Peer

BRANCHES = 4
"""Over how many keys a hot attribute is spread, its own among them."""

UNTOLD = 0
WHOLE_STAGE = 1
"""An attribute is whole in odd stages and split in even ones. Stages only grow, so whoever hears of
two of them knows which one is the later."""

STAGE_MAX = 1 << 62
"""Far more than there ever are, and less than what can be written and read."""

_NUMBERED = re.compile(r"/[0-9]\Z")


def name_of(attribute: str, branch: int = 0) -> str:
    """What the tree of an attribute is called, or one of its branches.

    >>> name_of("surf"), name_of("surf", 3)
    ('surf', 'surf/3')

    An attribute that looks like a branch of another is no such thing.

    >>> name_of("surf/3")
    'surf/3/0'
    """
    return f"{attribute}/{branch}" if branch or _NUMBERED.search(attribute) else attribute


def attribute_of(name: str) -> str:
    """The attribute that a tree with a name is of.

    >>> attribute_of("surf"), attribute_of("surf/3"), attribute_of("surf/3/0")
    ('surf', 'surf', 'surf/3')
    """
    return name[:-2] if _NUMBERED.search(name) else name


@lru_cache(1 << 14)
def base_of(name: str) -> str:
    """The name of the tree that one is a branch of, or its own if it is none.

    >>> base_of("surf/3"), base_of("surf"), base_of("surf/3/0")
    ('surf', 'surf', 'surf/3/0')
    """
    return name_of(attribute_of(name)) if _NUMBERED.search(name) else name


@lru_cache(1 << 14)
def names_of(base: str) -> tuple[str, ...]:
    """The names of a tree and of all its branches.

    >>> names_of("surf")
    ('surf', 'surf/1', 'surf/2', 'surf/3')
    """
    return tuple(name_of(attribute_of(base), branch) for branch in range(BRANCHES))


@lru_cache(1 << 14)
def others_of(name: str) -> tuple[str, ...]:
    """The names of the other branches of the same attribute, its own tree among them."""
    return tuple(other for other in names_of(base_of(name)) if other != name)


def branch_for(base: str, publisher: Peer) -> str:
    """The name of the branch that brings somebody's events."""
    return names_of(base)[key_of(publisher) % BRANCHES]


def is_split(stage: int) -> bool:
    """Whether an attribute has branches in a stage."""
    return stage > WHOLE_STAGE and stage % 2 == 0
