"""docs/client.md: its programs run, and print what they say."""

import re
from pathlib import Path

import pytest

from tests.client.running import running_node
from tests.tidy.source import CHECKOUT

EXAMPLES = re.findall(
    r"```python\n(.*?)```", (CHECKOUT / "docs" / "client.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=["script", "asyncio", "serialiser", "sealed", "circle", "past"]
)
def test_the_examples_run_and_print_what_they_say(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with running_node(tmp_path / "a"):
        exec(compile(example, "docs/client.md", "exec"), {})

    said = re.findall(r"print\(.*#\s(.*)", example)
    assert capsys.readouterr().out.splitlines() == said != []
