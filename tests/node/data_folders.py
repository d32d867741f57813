"""Data folders as nodes of each stored format have left them.

`python -m tests.node.data_folders` makes the archive of the current format in `data/`. Make it
once, when the format is released, and do not replace it: it stands for the folders that users have.
An archive has the folder, and `expected.json` with what a node finds in it.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from smartpubsub import Node
from smartpubsub.node.storage.folder import LOCK_FILE
from smartpubsub.node.storage.store_file import MIGRATIONS

ARCHIVES = Path(__file__).parent / "data"
EXPECTED = "expected.json"
LOOPBACK = "/ip4/127.0.0.1/tcp/0"
WAITING = [b"one", b"two"]
"""The events that wait for the reader of the kept subscription."""
TOPIC = [b"first", b"second"]
KEY, ORDER = "order-17", b"two shirts"


def archive_of(version: int) -> Path:
    """The archive of the folder that a format's node has left."""
    return ARCHIVES / f"version-{version}.tar.gz"


def unpacked(version: int, folder: Path) -> dict[str, Any]:
    """Unpack an archive; what a node finds in it."""
    with tarfile.open(archive_of(version)) as archive:
        # Early versions of Python 3.11 have no filters.
        keep = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extraction_filter = keep
        archive.extractall(folder)
    expected: dict[str, Any] = json.loads((folder / EXPECTED).read_text())
    return expected


async def fill(folder: Path) -> dict[str, Any]:
    """Run a node that stores something of everything."""
    async with Node(data=folder, listen=[LOOPBACK]) as node:
        async with node.subscribe("surf", keep=True):
            pass
        waiting = [(await node.publish("surf/price=1", said)).id for said in WAITING]
        topic = await node.create_topic("news", ordered=True)
        for said in TOPIC:
            await topic.publish(said)
        await node.group("apple/price[0,1]").create()
        order = await node.publish("order", ORDER, key=KEY)
        return {
            "peer_id": node.peer_id,
            "waiting": waiting,
            "topic": topic.id,
            "group": "apple/price[0,1]",
            "order": order.id,
        }


def make() -> None:
    """Make the archive of the current format."""
    path = archive_of(len(MIGRATIONS))
    if path.exists():
        raise SystemExit(f"{path} is there, and is not replaced; raise the format's version")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / EXPECTED).write_text(json.dumps(trio.run(fill, folder), indent=2))
        with suppress(FileNotFoundError):
            (folder / LOCK_FILE).unlink()
        with tarfile.open(path, "w:gz") as archive:
            for file in sorted(folder.iterdir()):
                archive.add(file, file.name)


if __name__ == "__main__":
    make()
