"""The rules of a topic in the words of the API: peer ids, and a few names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from smartpubsub.node.errors import NodeError
from smartpubsub.protocols.blocks import Cid, cid_from_text
from smartpubsub.protocols.pulsarcast.fields import PEERS_MAX
from smartpubsub.protocols.pulsarcast.topics import (
    ANYONE,
    META,
    NAME_CHARACTERS_MAX,
    NOBODY,
    SELF,
    SUBTOPICS_MAX,
    Linking,
    Rules,
    rules_ordered_by,
)
from smartpubsub.seam import Peer


class RulesError(NodeError):
    """Rules that contradict each other, or themselves."""

    is_usage_error = True


@dataclass(frozen=True, kw_only=True)
class RulesWanted:
    """Changes to the rules of a topic; None leaves a rule as it is."""

    ordered: bool | None = None
    publishers: Sequence[str] | str | None = None
    """The peers that may publish: peer ids, `self` for this node, or `anyone`."""
    requesters: Sequence[str] | str | None = None
    """The peers that may ask a publisher to publish: peer ids, `anyone` or `nobody`."""
    linking: str | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether all rules stay as they are."""
        rules = self.ordered, self.publishers, self.requesters, self.linking
        return all(rule is None for rule in rules)

    def applied(self, before: Rules, own: Peer) -> Rules:
        """Apply the changes to the rules of a topic."""
        if self.ordered:
            if not replace(self, ordered=None).says_nothing:
                raise RulesError(
                    "an ordered topic has its rules: its author publishes, on request of any peer;"
                    " leave the others out"
                )
            return rules_ordered_by(own)
        was_ordered = before == rules_ordered_by(own)
        rules = Rules() if was_ordered and self.ordered is False else before
        if self.publishers is not None:
            named = _named(self.publishers, own, (ANYONE,))
            rules = replace(rules, publishers=None if named == ANYONE else _peers(named))
        if self.requesters is not None:
            named = _named(self.requesters, own, (ANYONE, NOBODY))
            rules = replace(
                rules,
                takes_requests=named != NOBODY,
                requesters=() if named in (ANYONE, NOBODY) else _peers(named),
            )
        if self.linking is not None:
            rules = replace(rules, linking=_linking(self.linking))
        if was_ordered and self.ordered is None and not rules.is_chained:
            raise RulesError(
                "the topic is ordered, and would not be any more with these rules; if that is"
                " wanted, say so as well: ordered=False, or --unordered"
            )
        return rules


def _named(names: Sequence[str] | str, own: Peer, words: tuple[str, ...]) -> str | list[Peer]:
    """Read peer ids, or a word for all or none."""
    listed = [names] if isinstance(names, str) else [*names]
    said = [word for word in words if word in listed]
    if said and len(set(listed)) > 1:
        raise RulesError(f"{said[0]!r} and others say two things; give one of them")
    if not listed:
        raise RulesError(f"name at least one peer, or say {' or '.join(map(repr, words))}")
    if len(listed) > PEERS_MAX:
        raise RulesError(f"a rule names at most {PEERS_MAX:,} peers")
    if said:
        return said[0]
    from smartpubsub.node.transport.contacts import contact_of  # Clients do not need it.

    return [own if name == SELF else contact_of(name).peer for name in listed]


def _peers(named: str | list[Peer]) -> tuple[Peer, ...]:
    return tuple(dict.fromkeys(peer for peer in named if isinstance(peer, bytes)))


def _linking(text: str) -> Linking:
    known = {linking.word: linking for linking in Linking}
    if text not in known:
        raise RulesError(f"{text!r} is no linking; there are {' and '.join(known)}")
    return known[text]


def subtopics_of(
    wanted: Mapping[str, str | None], before: Mapping[str, Cid] | None = None
) -> dict[str, Cid]:
    """Apply changes to sub-topics; those without an id are removed."""
    links = {name: cid for name, cid in (before or {}).items() if name != META}
    for name, id in wanted.items():
        if name == META:
            raise RulesError(f"the sub-topic {META!r} is every topic's own; choose another name")
        if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
            raise RulesError(f"a sub-topic's name has 1 to {NAME_CHARACTERS_MAX} characters")
        if id is not None:
            links[name] = cid_from_text(id)
        elif links.pop(name, None) is None:
            raise RulesError(f"there is no sub-topic {name!r} to remove")
    if len(links) >= SUBTOPICS_MAX:
        raise RulesError(f"a topic has at most {SUBTOPICS_MAX - 1} sub-topics")
    return links
