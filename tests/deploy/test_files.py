"""The files in deploy/ name commands, settings, metrics and files that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from smartpubsub import SyncNode
from smartpubsub.cli.commands import smartpubsub
from smartpubsub.node.configuration import SETTINGS, load_config
from tests.node.hosts import LOOPBACK
from tests.tidy.source import CHECKOUT

DEPLOY = CHECKOUT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
VARIABLE = re.compile(r"\bSMARTPUBSUB_([A-Z_]+)\b")
PEER = "12D3KooWGKtjuCtjthtjdtWYEV1h7yDo7fJTjD8oWueVk9xhmtjJ"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def by_kind(kind: str) -> Any:
    (found,) = [each for each in documents("kubernetes.yaml") if each["kind"] == kind]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_variables_are_settings(path: Path) -> None:
    names = {name.lower() for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert names <= {*SETTINGS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_images_have_versions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    images = re.findall(r"^(?:FROM| *-? *image:) *(\S+)", text, re.MULTILINE)
    assert [image for image in images if ":" not in image or image.endswith(":latest")] == []


def test_commands_exist() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    commands = re.findall(r"smartpubsub,? ((?:node|token),? (?:run|info|create)[^#\n\]>|]*)", text)
    assert len(commands) >= 5
    for command in commands:
        words = [word for word in re.split(r"[,\s]+", command) if word.isprintable() and word]
        context = smartpubsub.make_context("smartpubsub", words[:1], resilient_parsing=True)
        group: Any = smartpubsub.get_command(context, words[0])
        found = group.get_command(context, words[1])
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, command


def test_compose_has_ten_nodes_and_the_files_that_it_mounts() -> None:
    (compose,) = documents("compose.yaml")
    services = compose["services"]
    assert 1 + services["others"]["deploy"]["replicas"] == 10
    for service in services.values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists(), mount
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
    (scraped,) = documents("prometheus.yaml")
    assert {*scraped["scrape_configs"][0]["dns_sd_configs"][0]["names"]} == {"first", "others"}


def test_the_stateful_set_and_its_service_fit() -> None:
    service, nodes = by_kind("Service"), by_kind("StatefulSet")["spec"]
    pod = nodes["template"]
    labels = pod["metadata"]["labels"]
    assert nodes["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == nodes["selector"]["matchLabels"] == labels
    assert by_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    (container,) = pod["spec"]["containers"]
    served = {port["port"] for port in service["spec"]["ports"]}
    assert served == {port["containerPort"] for port in container["ports"]}
    claims = {claim["metadata"]["name"] for claim in nodes["volumeClaimTemplates"]}
    volumes = claims | {volume["name"] for volume in pod["spec"]["volumes"]}
    for each in (container, *pod["spec"]["initContainers"]):
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
    given = {each["name"]: each.get("value", PEER) for each in container["env"]}
    environment = {
        name: text.replace("$(POD)", "smartpubsub-1").replace("$(SEED)", PEER)
        for name, text in given.items()
        if name.startswith("SMARTPUBSUB_")
    }
    config = load_config(environ=environment)
    assert config.bootstrap == (f"/dns4/smartpubsub-0.smartpubsub/tcp/4001/p2p/{PEER}",)
    assert config.announce == ("/dns4/smartpubsub-1.smartpubsub/tcp/4001",)


def test_the_dashboard_shows_metrics_that_nodes_have(tmp_path: Path) -> None:
    with SyncNode(data=tmp_path, listen=[LOOPBACK]) as node:
        there = set(re.findall(rb"^# TYPE (\w+)", node.metrics(), re.MULTILINE))
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {
        name
        for text in expressions
        for name in re.findall(r"\b(?:smartpubsub|libp2p|kad|process)_\w+", text)
    }
    assert len(named) > 15
    assert {name.encode() for name in named} <= there


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "smartpubsub.service").read_text(encoding="utf-8")
    unit = tmp_path / "smartpubsub.service"
    unit.write_text(text.replace("/usr/local/bin/smartpubsub", "/bin/true"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if "smartpubsub.service" in line] == []
