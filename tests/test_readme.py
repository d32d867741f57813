"""The README's Python gives what the README says."""

import re
from pathlib import Path
from typing import Any

import pytest

from smartpubsub import PredicateError
from smartpubsub.bench.workloads import events

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
LINE = re.compile(r"(?P<code>.+?)\s+# (?P<said>.+)")
VALUE = re.compile(r"(True|False|\[.*\]|Predicate\(.*?\))")


@pytest.mark.parametrize("block", BLOCKS, ids=["predicates", "matching"])
def test_every_value_is_what_is_said(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"table": events(5, seed=1).table()}
    for line in block.splitlines():
        said = LINE.fullmatch(line)
        if said is None:
            exec(line, names)
        elif said["said"].startswith("PredicateError: "):
            with pytest.raises(PredicateError, match=r"column 11: expected '\]'"):
                eval(said["code"], names)
        elif value := VALUE.match(said["said"]):
            assert repr(eval(said["code"], names)) == value[0], line
        else:
            exec(said["code"], names)
