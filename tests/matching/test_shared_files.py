"""Processes that load one file share its bulk and do not disturb each other."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from tests.matching.crowds import event, many_topics
from tests.matching.engines import needs_native
from tests.matching.oracle import Oracle, check, filled

ORACLE = Oracle((key, many_topics(Random(key))) for key in range(4000))
QUESTIONS = [event(Random(number)) for number in range(5)]

OTHER_PROCESS = """
import sys
from smartpubsub.matching import Index
path, engine, question = sys.argv[1:]
index = Index.load(path, engine)
print(sorted(index.match(question)), flush=True)
for key in range(0, 4000, 2):
    index.remove(key)
index.add(-1, "r0[,]")
print(sorted(index.match(question)), flush=True)
sys.stdin.read()
print(sorted(index.match(question)), flush=True)
"""


def test_two_processes(engine: EngineName, tmp_path: Path) -> None:
    path = tmp_path / "index"
    filled(ORACLE, engine).save(path)
    index = Index.load(path, engine)
    question = next(one for one in QUESTIONS if "r0" in one.attributes and ORACLE.match(one))
    before = ORACLE.match(question)
    after = [-1, *(key for key in before if key % 2)]

    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(path), engine, str(question)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"{before}\n"
        assert other.stdout.readline() == f"{after}\n"
        check(index, ORACLE, QUESTIONS)
        for key in ORACLE:
            index.remove(key)
        filled({1: "surf"}, engine).save(path)
        other.stdin.close()
        assert other.stdout.readline() == f"{after}\n"
    assert other.returncode == 0


@needs_native
def test_the_bulk_of_a_loaded_index_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "index"
    made = filled(ORACLE, "native")
    made.save(path)
    loaded = Index.load(path, "native")

    check(loaded, ORACLE, QUESTIONS)
    assert loaded.match_any("t0/t1/t2/r0=3")
    fresh = Index.load(path, "native")
    assert fresh.memory_bytes < made.memory_bytes / 4
    fresh.remove(0)
    assert fresh.memory_bytes > made.memory_bytes / 4


@needs_native
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has mapped")
def test_the_file_is_mapped_while_the_index_lives(tmp_path: Path) -> None:
    path = tmp_path / "index"
    filled(ORACLE, "native").save(path)
    index = Index.load(path, "native")

    [mapping] = mappings_of(path)
    assert mapping.split()[1].startswith("r--")
    del index
    assert mappings_of(path) == []


def mappings_of(path: Path) -> list[str]:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return [line for line in maps.splitlines() if line.endswith(str(path))]
