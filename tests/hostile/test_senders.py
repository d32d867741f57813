"""A peer without a role: what it claims to be is believed by no live node."""

from __future__ import annotations

from pathlib import Path

from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs.messages import (
    Alive,
    Bundle,
    CopyTree,
    Part,
    Pull,
    Pulled,
)
from tests.hostile.attacker import attackers, nodes, works
from tests.node.hosts import eventually, run


def test_a_stranger_is_no_rendezvous_and_answers_no_probe(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes(tmp_path, 2) as (target, other), attackers(target) as (attacker,):
            attacker.script = lambda *_: []  # No node takes it into its routing table.
            assert await works(other, target)
            claims: list[Part] = [
                Pull("works0"),
                CopyTree("works0", True, 1 << 60, True, (), (), 2),
                *(Alive(number, 0) for number in range(6)),
            ]
            await attacker.send(target, Bundle(tuple(claims)))

            def refused(kind: type) -> int:
                return target._engine.tally.refused.get(refusal_of(kind), 0)

            await eventually(lambda: refused(Alive) == 6)
            assert refused(Pull) == refused(CopyTree) == 1
            bundles = attacker.received(Bundle, target)
            assert not any(isinstance(part, Pulled) for b in bundles for part in b.parts)
            assert await works(other, target)

    run(main)
