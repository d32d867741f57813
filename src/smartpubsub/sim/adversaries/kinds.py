"""The kinds of adversaries, as options name them, and which nodes of a run they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from smartpubsub.errors import SmartPubSubError
from smartpubsub.sim.kernel.streams import stream

KINDS: Mapping[str, str] = {
    "drop": "forwards no events and withholds history, and confirms and acknowledges all the same",
    "drop-half": "does so for a random half of the events",
    "hide": "drops, and hides the groups of FastDelivery's directories",
    "censor": "does so for the events of one publisher",
    "flash": "follows the protocol for so many seconds (default: 5) of the workload, then drops",
    "delay": "sends events on after so many seconds (default: 5)",
    "forge-ack": "acknowledges and confirms events at once, and forgets them",
    "forge": "alters the events that it sends on, invents events and acknowledgements, sends nodes"
    " to other adversaries, and repeats old messages",
    "fork": "publishes as often as a publisher, two events under each number",
    "rollback": "publishes as often as a publisher, and signs all its events under the number of"
    " the first one",
    "bad-parents": "publishes as often as a publisher; in topics its events link to one that does"
    " not exist",
    "sybil": "drops, has an id minted closer to an attribute than all honest nodes, and joins so"
    " many seconds after the first call (default: before it)",
    "eclipse": "drops, and from the first call on answers lookups with other adversaries only",
    "surround": "does so too, has an id minted closer to one subscriber than all honest nodes, and"
    " joins like a sybil",
    "route-poison": "drops, and answers lookups with close ids that no node has",
    "flap": "is up for 20 seconds and down for so many (default: 5), again and again",
    "flood": "publishes so many events a second (default: 100 times the rate of a publisher)",
    "broad": "subscribes to every attribute, with so many filters (default: 200), and never"
    " confirms an event",
    "mixed": "is of a kind that is drawn for each node",
}
DEFAULT_OPTIONS: Mapping[str, float] = {
    "delay": 5.0,
    "flash": 5.0,
    "flap": 5.0,
    "flood": 0.0,
    "broad": 200.0,
    "sybil": 0.0,
    "surround": 0.0,
}
"""The options of the kinds that have one."""
SYBIL = "sybil"
SURROUND = "surround"
MINTED = (SYBIL, SURROUND)
"""The kinds that join beside the nodes of the workload; they are counted, not a share."""
OPTION_MAX = 1_000_000.0
MINTED_MAX = 1_000
MIXED = "mixed"
FORK = "fork"
ROLLBACK = "rollback"
BAD_PARENTS = "bad-parents"
PUBLISHING = (FORK, ROLLBACK, BAD_PARENTS)
"""The kinds that lie about events of their own."""


class AdversaryError(SmartPubSubError, ValueError):
    """An adversary that cannot be read."""


class Adversary(NamedTuple):
    """A kind of adversary, and how many there are."""

    kind: str
    amount: float
    """The share of the nodes; of minted ids the number, of sybils for each attribute."""
    option: float | None = None

    def __str__(self) -> str:
        words = [self.kind, f"{self.amount:g}"]
        return ":".join([*words, f"{self.option:g}"] if self.option is not None else words)

    @property
    def value(self) -> float:
        """The option, or its usual value."""
        return DEFAULT_OPTIONS[self.kind] if self.option is None else self.option

    @classmethod
    def parse(cls, text: str) -> Adversary:
        """Read an adversary.

        >>> Adversary.parse("delay:0.1:2.5")
        Adversary(kind='delay', amount=0.1, option=2.5)
        """
        kind, *words = text.split(":")
        if kind not in KINDS:
            raise AdversaryError(f"no adversary {kind!r}; there are {', '.join(KINDS)}")
        if not words or len(words) > 1 + (kind in DEFAULT_OPTIONS):
            form = f"{kind}:COUNT" if kind in MINTED else f"{kind}:SHARE"
            more = f" or {form}:OPTION" if kind in DEFAULT_OPTIONS else ""
            raise AdversaryError(f"{text!r} is not of the form {form}{more}")
        amount, *rest = map(_number, words)
        if kind in MINTED:
            if amount != int(amount) or not 1 <= amount <= MINTED_MAX:
                raise AdversaryError(f"{text}: a whole number from 1 to {MINTED_MAX} of ids")
        elif not 0 < amount <= 1:
            raise AdversaryError(f"{text}: a share above 0 and up to 1")
        if rest and not 0 < rest[0] <= OPTION_MAX:
            raise AdversaryError(f"{text}: an option above 0 and up to {OPTION_MAX:g}")
        return cls(kind, amount, *rest)


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise AdversaryError(f"{word!r} is not a number")
    return number


def chosen_nodes(
    adversaries: Sequence[Adversary], candidates: Sequence[int], nodes: int, seed: int
) -> dict[int, Adversary]:
    """The nodes that are adversaries; each node is one kind at most."""
    order = stream(seed, "adversaries").sample(candidates, len(candidates))
    chosen: dict[int, Adversary] = {}
    for adversary in adversaries:
        if adversary.kind not in MINTED:
            for _ in range(min(len(order), max(1, round(adversary.amount * nodes)))):
                node = order.pop()
                chosen[node] = _drawn(seed, node) if adversary.kind == MIXED else adversary
    return chosen


def _drawn(seed: int, node: int) -> Adversary:
    """An adversary of any kind that nodes of the workload can be.

    Half of the nodes that sign two events under one number do so at once, the others later: a kind
    of its own in the draw would change the nodes of all worlds that are known by their seeds.
    """
    rng = stream(seed, "mixed", node)
    kind = rng.choice([kind for kind in KINDS if kind not in (*MINTED, ROLLBACK, MIXED)])
    if kind == FORK:
        kind = rng.choice((FORK, ROLLBACK))
    return Adversary(kind, 1.0)
