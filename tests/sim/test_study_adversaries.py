"""The study of adversaries: the same attacks on several protocols, and a run without an attack."""

from collections.abc import Iterable

import pytest

from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.studies.adversaries import study
from smartpubsub.workloads.actions import Action


def test_every_protocol_has_a_row_for_every_attack() -> None:
    attacks = (None, Adversary("drop", 0.2))

    found = study(15, 1, 5, attacks, ("gossipsub", "floodsub"), ("crash",))

    rows = [(one.protocol, one.attack, one.adversaries) for one in found]
    assert rows == [
        ("gossipsub", "none", 0),
        ("gossipsub", "drop:0.2", 3),
        ("floodsub", "none", 0),
        ("floodsub", "drop:0.2", 3),
    ]
    assert all(one.share == one.share_within_10_s == 1.0 for one in found)
    assert all(one.forged == 0 and one.expected > 0 for one in found)


def test_an_interrupt_ends_the_whole_study(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_self: Experiment, _phase: Iterable[Action]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "_run_phase", interrupt)

    with pytest.raises(KeyboardInterrupt):
        study(5, 1, 1, (None, Adversary("drop", 0.2)), ("floodsub",), ("crash",))
