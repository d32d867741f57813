"""Files speak of the project only, and end as text files do."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.samples import write_files
from tests.tidy.source import CHECKOUT

# Put together here, so that this file does not mention them either.
MACHINE_PATHS = ("/".join(("", "work", "")), "/".join(("..", "shared")))
NOT_OURS = frozenset(
    {".git", ".venv", ".hypothesis", "__pycache__", "build", "dist", "node_modules"}
)


def project_files(folder: Path) -> list[Path]:
    """The files git tracks or would add; in a copy without git, all but what is made."""
    if (folder / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        paths = {folder / name for name in listing.split("\0") if name}
    else:
        paths = {path for path in folder.rglob("*") if is_ours(path.relative_to(folder))}
    return sorted(path for path in paths if path.is_file())


def is_ours(path: Path) -> bool:
    return not any(part in NOT_OURS or part.endswith("_cache") for part in path.parts)


def texts(paths: Iterable[Path]) -> dict[Path, str]:
    contents = {path: path.read_bytes() for path in paths}
    return {path: raw.decode() for path, raw in contents.items() if b"\0" not in raw}


def mentioning_machine_paths(files: dict[Path, str]) -> list[Path]:
    return [path for path, text in files.items() if any(word in text for word in MACHINE_PATHS)]


def without_final_newline(files: dict[Path, str]) -> list[Path]:
    return [path for path, text in files.items() if text and not text.endswith("\n")]


def test_no_file_mentions_a_machine_path() -> None:
    assert mentioning_machine_paths(texts(project_files(CHECKOUT))) == []


def test_every_text_file_ends_in_a_newline() -> None:
    assert without_final_newline(texts(project_files(CHECKOUT))) == []


def test_a_machine_path_is_found(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "good.txt": "a framework/plan\n",
            "home.txt": f"see {MACHINE_PATHS[0]}plan\n",
            "shared.txt": f"see {MACHINE_PATHS[1]}/plan\n",
        },
    )

    found = mentioning_machine_paths(texts(project_files(tmp_path)))

    assert [path.name for path in found] == ["home.txt", "shared.txt"]


def test_a_missing_final_newline_is_found(tmp_path: Path) -> None:
    write_files(tmp_path, {"empty.txt": "", "good.txt": "end\n", "bad.txt": "end"})

    found = without_final_newline(texts(project_files(tmp_path)))

    assert [path.name for path in found] == ["bad.txt"]


def test_files_that_are_made_are_not_looked_at(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "", ".venv/b.txt": "", ".ruff_cache/c.txt": ""})

    assert [path.name for path in project_files(tmp_path)] == ["a.txt"]
