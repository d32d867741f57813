"""A module that needs more lines than this has more than one idea."""

from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT

SOURCE_LIMIT = 400
TEST_LIMIT = 500


def too_long(folder: Path, limit: int) -> list[str]:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules(folder)}
    return [f"{path}: {length} lines" for path, length in lengths.items() if length > limit]


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_source_modules_are_short() -> None:
    assert modules(CHECKOUT / "src")
    assert too_long(CHECKOUT / "src", SOURCE_LIMIT) == []
    assert too_long(CHECKOUT / "tools", SOURCE_LIMIT) == []


def test_test_modules_are_short() -> None:
    assert too_long(CHECKOUT / "tests", TEST_LIMIT) == []


def test_a_module_of_one_line_too_many_is_found(tmp_path: Path) -> None:
    write_files(tmp_path, {"fits.py": "pass\n" * 3, "room/long.py": "pass\n" * 4})

    assert too_long(tmp_path, 3) == [f"{tmp_path}/room/long.py: 4 lines"]
