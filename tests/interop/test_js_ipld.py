"""Topics that were exported are read by IPLD's own libraries, and by Kubo where there is one."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.protocols.blocks import cid_text
from smartpubsub.protocols.car import read_car
from tests.interop.javascript import require_packages, running
from tests.node.hosts import LOOPBACK, run

KUBO_S_MAX = 60


def exported(folder: Path) -> tuple[Path, str]:
    """A file with a topic of three events, and the topic's content id."""
    path = folder / "news.car"
    ids = []

    async def main() -> None:
        async with Node(data=folder / "node", listen=[LOOPBACK]) as node:
            topic = await node.create_topic("news")
            for payload in (b"one", b"two", b"three"):
                await topic.publish(payload)
            await topic.export(path)
            ids.append(topic.id)

    run(main)
    return path, ids[0]


def test_javascript_reads_every_block_as_what_it_is(tmp_path: Path) -> None:
    require_packages()
    path, topic = exported(tmp_path)
    # Packages are found from where a program lies, and one without a file lies where it is run.
    program = (Path(__file__).parent / "car.mjs").read_text(encoding="utf-8")

    async def main() -> None:
        async with running("--input-type=module", "-e", program, str(path)) as reader:
            roots = (await reader.said())["roots"]
            blocks = []
            while "end" not in (said := await reader.said()):
                blocks.append(said)
        assert all(block["cid"] == block["again"] for block in blocks)
        assert [block["name"] for block in blocks[:2]] == ["news/meta", "news"]
        assert roots == [topic, blocks[-1]["cid"]]
        events = blocks[3:]
        assert [event["payload"] for event in events] == ["one", "two", "three"]
        assert {event["topic"] for event in events} == {topic}
        assert events[2]["parents"] == [events[1]["cid"]]

    run(main)


def test_kubo_imports_the_file(tmp_path: Path) -> None:
    if shutil.which("ipfs") is None:
        pytest.skip("Kubo is not installed")
    path, topic = exported(tmp_path)
    environment = {**os.environ, "IPFS_PATH": str(tmp_path / "kubo")}

    def ipfs(*arguments: str) -> str:
        command = ["ipfs", *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=KUBO_S_MAX, check=True
        )
        return done.stdout

    ipfs("init", "--empty-repo")
    # Roots are pinned with all that is below them, so nothing may be missing or be another block.
    ipfs("dag", "import", "--offline", str(path))
    assert json.loads(ipfs("dag", "get", "--offline", topic))["name"] == "news"
    with path.open("rb") as file:
        newest = cid_text(read_car(file)[0][1])
    payloads = []
    for below in ("", "/parents/0", "/parents/0/parents/0"):
        payload = json.loads(ipfs("dag", "get", "--offline", f"{newest}{below}/payload"))
        payloads.append(base64.b64decode(payload["/"]["bytes"] + "=="))
    assert payloads == [b"three", b"two", b"one"]
    assert json.loads(ipfs("dag", "get", "--offline", f"{newest}/topic/name")) == "news"
