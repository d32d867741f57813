"""An embedded node, a client and the blocking forms have one interface, and types."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smartpubsub
from smartpubsub import AsyncioNode, BlockingClient, Client, Group, Node, SyncNode, Topic
from smartpubsub.client.blocking import BlockingGroup, BlockingNode, BlockingTopic
from smartpubsub.node.configuration import SETTINGS, ConfigError, NodeOptions
from tests.tidy.source import CHECKOUT

SAMPLE = Path(__file__).with_name("sample.py")
FORMS: list[tuple[type[Any], type[Any]]] = [
    (Node, Client),
    (Node, AsyncioNode),
    (Node, BlockingClient),
    (Node, SyncNode),
    (Topic, BlockingTopic),
    (Group, BlockingGroup),
]
OF_AN_EMBEDDED_NODE = {
    *("config", "distrusted", "failures", "has_had", "ledger", "metrics_at", "neighbours"),
    *("routes", "start_phase", "take"),
}
OF_TOPICS = {"cid"}


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("one", "other"), FORMS)
def test_all_forms_have_the_same_methods_and_parameters(one: type[Any], other: type[Any]) -> None:
    missing = public(one) - public(other) - OF_AN_EMBEDDED_NODE - OF_TOPICS
    assert missing - {"serializer"} == set()
    for name in public(one) & public(other):
        method, same = getattr(one, name), getattr(other, name)
        if inspect.isfunction(method):
            assert inspect.signature(method) == inspect.signature(same), name


@pytest.mark.parametrize("kind", [Node, Topic, Group, BlockingNode, BlockingTopic, BlockingGroup])
def test_every_parameter_has_a_name(kind: type[Any]) -> None:
    for name in public(kind):
        method = getattr(kind, name)
        if inspect.isfunction(method):
            kinds = {p.kind for p in inspect.signature(method).parameters.values()}
            assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


@pytest.mark.parametrize("kind", [Node, SyncNode, AsyncioNode])
def test_a_node_takes_all_settings_and_nothing_else(kind: type[Any], tmp_path: Path) -> None:
    assert set(NodeOptions.__annotations__) == set(SETTINGS)
    assert set(inspect.signature(kind).parameters) == {*SETTINGS, "config", "serializer"}
    with pytest.raises(ConfigError, match="dta: no such setting"):
        kind(dta=tmp_path)


def test_the_type_checker_finds_mistakes_and_no_others() -> None:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(SAMPLE)]
    checked = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=600
    )
    found = re.findall(r"sample\.py:(\d+): error: .*\[([\w-]+)\]", checked.stdout)
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    marked = [
        (str(number), code[0])
        for number, line in enumerate(lines, 1)
        if (code := re.findall(r"# mistake: ([\w-]+)", line))
    ]
    assert checked.stderr == ""
    assert found == marked != []


def test_public_names_are_listed_once() -> None:
    assert sorted(smartpubsub._PLACES) == sorted(smartpubsub.__all__)
    errors = {name for name in smartpubsub.__all__ if name.endswith("Error")}
    defined = {
        name
        for name, kind in vars(smartpubsub.node.errors).items()
        if inspect.isclass(kind) and issubclass(kind, smartpubsub.SmartPubSubError)
    }
    assert defined <= errors
