"""Files for results are checked before any work begins."""

from pathlib import Path

import click
import pytest

from smartpubsub.cli.output import WritablePath


def test_a_check_leaves_no_file_and_changes_none(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("result")

    assert WritablePath().convert(str(new), None, None) == new
    assert WritablePath().convert(str(old), None, None) == old

    assert not new.exists()
    assert old.read_text() == "result"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"absent/new\.json: No such file or directory"):
        WritablePath().convert(str(tmp_path / "absent" / "new.json"), None, None)
