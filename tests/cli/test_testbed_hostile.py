"""Nodes under attack for seconds: what they publish is acknowledged, and nothing is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.testbed.hostile import PUBLISH_P99_MS_MAX, attack_text
from smartpubsub.testbed.hostile.attacks import ATTACKS

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="not Linux")


def test_nodes_under_all_attacks_at_once_lose_nothing(capsys: Captured) -> None:
    arguments = ["--nodes", "3", "--minutes", "0.1", "--rate", "5", "--json"]
    code = main(["testbed", "hostile", *arguments])
    output = capsys.readouterr()
    found: dict[str, Any] = json.loads(output.out)

    assert found["attacks"] == list(ATTACKS)
    assert found["violations"] == [], output.err
    assert (found["missing"], found["unexpected"], found["app_duplicates"]) == (0, 0, 0)
    assert found["published"] == found["injected"] > 5
    assert found["delivered"] == found["expected"] > 5
    assert found["errors"] == {}
    assert [(usage["contained"], usage["core_restarts"]) for usage in found["usage"]] == [
        ({}, 0)
    ] * 3
    assert found["nodes_cpu_s"] > 0
    assert found["attackers_cpu_s"] > 0
    assert found["load"] >= 0
    # How long it takes depends on what else the machine does, and the exit code depends on that.
    assert code == (found["publish_ms"]["p99"] > PUBLISH_P99_MS_MAX)


def test_the_text_names_the_attacks_and_who_used_the_processor() -> None:
    found = {"attacks": ["probes", "claims"], "nodes_cpu_s": 2.5, "attackers_cpu_s": 1, "load": 3}
    attacks, processor = attack_text(found).splitlines()
    assert attacks == "attacks       probes, claims"
    assert processor.startswith("processor     nodes 2.5 s, attackers 1 s; load 3 of ")
