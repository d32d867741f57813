"""Files that were cut or overwritten at random places: an error says so in one line.

A damaged file may also be as good as before: a comment has changed, or a part that is not used.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import trio

from smartpubsub import Circle, Node, Predicate
from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway.access import Access
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.tokens import FILE as TOKENS
from smartpubsub.gateway.tokens import TokenFile
from smartpubsub.matching import Index
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import CONFIG_FILE, load_config
from smartpubsub.node.identity import KEY_FILE, identity_in
from smartpubsub.node.network_key import NetworkKey
from smartpubsub.node.storage.store_file import FILE as STORAGE
from smartpubsub.protocols.blocks import encode
from smartpubsub.protocols.car import read_car, write_car
from smartpubsub.workloads import read_workload
from tests.node.hosts import LOOPBACK

PEER = "12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq"
CONFIG = f"""\
# A node at home.
listen = ["/ip4/127.0.0.1/tcp/0"]
bootstrap = ["/ip4/192.0.2.1/tcp/4001/p2p/{PEER}"]
backups = 2
mdns = false
protocol = "scoutsubs"
http = "127.0.0.1:8080"
"""
WORKLOAD = b"".join(
    b'{"node": "n%d", "publish": "surf/price=%d", "payload": "\xc3\xa9", "at_ms": %d}\n'
    % (number, number, number)
    for number in range(40)
)


def damaged(content: bytes, rng: Random) -> bytes:
    """Cut a file, or overwrite, insert or remove some bytes."""
    place = rng.randrange(len(content))
    size = rng.choice([1, 4, 64, 4096])
    before, after = content[:place], content[place + size :]
    overwritten = min(size, len(content) - place)
    match rng.randrange(6):
        case 0:
            return before
        case 1:
            return before + bytes(overwritten) + after
        case 2:
            return before + rng.randbytes(overwritten) + after
        case 3:
            return before + rng.randbytes(size) + content[place:]
        case 4:
            return before + after
        case _:
            return before + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


class File(NamedTuple):
    """A file that a node or a command reads."""

    write: Callable[[Path], Path]
    """Write it into a folder, and return its path."""
    read: Callable[[Path], object]
    """Read it, and use what it says."""


def _stored(folder: Path) -> Path:
    async def main() -> None:
        async with Node(data=folder, listen=[LOOPBACK]) as node:
            async with node.subscribe("surf", keep=True):
                pass
            topic = await node.create_topic("beach")
            for number in range(10):
                await node.publish(f"surf/price={number}", bytes(300), key=f"{number}")
                await topic.publish(bytes(300))
            await node.group("surf/price[0,9]").create()

    trio.run(main)
    return folder / STORAGE


def _start(path: Path) -> None:
    async def main() -> None:
        async with Node(data=path.parent, listen=[LOOPBACK]) as node:
            await node.publish("tide")
            kept = await node.subscriptions()
            (topic,) = await node.topics()
            assert [info.waiting for info in kept] == [10], "events are lost, and nothing says so"
            assert topic.stock.event_count == 10
            assert len(await node.groups()) == 1

    trio.run(main)


def _tokens(folder: Path) -> Path:
    for name in ("reader", "writer"):
        TokenFile(folder).create(name, [Scope.READ], None)
    return folder / TOKENS


def _use_tokens(path: Path) -> None:
    tokens = TokenFile(path.parent)
    tokens.all()
    with pytest.raises(ProblemError):
        Access(Endpoint("0.0.0.0", 0), tokens).check_token("nonsense", Scope.READ)


def _circle(folder: Path) -> Path:
    Circle(folder, "plans").add(PEER)
    (path,) = (folder / "circles").glob("*.json")
    return path


def _use_circle(path: Path) -> None:
    circle = Circle(path.parent.parent, "plans")
    circle.members, circle.letter(), circle.loads(circle.dumps("dawn"))


def _index(folder: Path) -> Path:
    index = Index()
    for number in range(200):
        index.add(number, Predicate.parse(f"surf/price[{number},{number + 9}]"))
    index.save(folder / "index")
    return folder / "index"


def _use_index(path: Path) -> None:
    for engine in ("python", "native"):
        index = Index.load(path, engine)
        index.match(Predicate.parse("surf/price=7"))


def _network_key(folder: Path) -> Path:
    NetworkKey.new().write(folder / "network.key")
    return folder / "network.key"


def _identity(folder: Path) -> Path:
    identity_in(folder)
    return folder / KEY_FILE


def _bytes(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def _car() -> bytes:
    file = BytesIO()
    write_car(file, [], [encode({"number": number}) for number in range(50)])
    return file.getvalue()


def _use_car(path: Path) -> None:
    with path.open("rb") as file:
        _, blocks = read_car(file)
        list(blocks)


def _use_workload(path: Path) -> None:
    read_workload(path).actions()


FILES = {
    "the storage": File(_stored, _start),
    "the identity": File(_identity, lambda path: identity_in(path.parent)),
    "the key of a network": File(_network_key, NetworkKey.read),
    "the configuration": File(
        _bytes(CONFIG_FILE, CONFIG.encode()), lambda path: load_config(environ={}, file=path)
    ),
    "the tokens": File(_tokens, _use_tokens),
    "a circle": File(_circle, _use_circle),
    "an index": File(_index, _use_index),
    "an archive": File(_bytes("topic.car", _car()), _use_car),
    "a workload": File(_bytes("w.jsonl", WORKLOAD), _use_workload),
    "a compressed workload": File(
        _bytes("w.jsonl.gz", gzip.compress(WORKLOAD, mtime=0)), _use_workload
    ),
}
SEEDS = {"the storage": 40}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    file = FILES[name]
    path = file.write(tmp_path)
    file.read(path)
    content = path.read_bytes()
    outcomes = set()
    for seed in range(SEEDS.get(name, 200)):
        for log in path.parent.glob(f"{path.name}-*"):
            log.unlink()  # Of a start that failed.
        path.write_bytes(damaged(content, Random(seed)))
        said = _problem(file, path, seed)
        outcomes.add(said is None)
        assert len((said or "harmless").splitlines()) == 1, (seed, said)
    assert False in outcomes


def _problem(file: File, path: Path, seed: int) -> str | None:
    try:
        file.read(path)
    except SmartPubSubError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"seed {seed}") from error
    return None
