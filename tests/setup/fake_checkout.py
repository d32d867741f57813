"""A checkout with the real bin/ and tools/ but tiny packages, so that no set-up needs a network."""

import os
import shutil
import subprocess
from pathlib import Path

REAL_CHECKOUT = Path(__file__).parents[2]

SURROUNDINGS = {
    # Nothing listens on port 1, so any attempt to use an index fails at once.
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_NO_CACHE_DIR": "1",
    # It has to be there, not to compile: the fake native package has no source.
    "CXX": "sh",
}

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

BACKEND = """\
import zipfile

FILES = {files!r}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open({build_log!r}, "a") as log:
        log.write("{name}\\n")
    {behaviour}
    wheel = "{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{{folder}}/{{wheel}}", "w") as archive:
        for path, text in FILES.items():
            archive.writestr(path, text)
    return wheel


build_editable = build_wheel
"""

# Its exit code is its last argument, if that is a number.
COMMAND = """\
import sys

def main():
    print(*sys.argv[1:], sep="|")
    return int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0
"""


class FakeCheckout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.marker = root / ".venv" / "made-from.txt"
        self._build_log = root.with_name(f"{root.name} builds.log")
        for folder in ("bin", "tools"):
            shutil.copytree(
                REAL_CHECKOUT / folder,
                root / folder,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        (root / "requirements.txt").touch()
        self.write_package()
        self.write_native()

    def write_package(self, behaviour: str = "pass") -> None:
        """Write the package; the behaviour is a statement that its build runs."""
        files = {
            "smartpubsub_fake.py": COMMAND,
            "smartpubsub-1.0.dist-info/entry_points.txt": (
                "[console_scripts]\nsmartpubsub = smartpubsub_fake:main\n"
            ),
        }
        self._write_distribution(self.root, "smartpubsub", files, behaviour)

    def write_native(self, behaviour: str = "pass") -> None:
        files = {"smartpubsub_native_fake.py": ""}
        self._write_distribution(self.root / "native", "smartpubsub_native", files, behaviour)

    def builds(self) -> list[str]:
        """What was built since the last call, in order."""
        names = self._build_log.read_text().split() if self._build_log.exists() else []
        self._build_log.unlink(missing_ok=True)
        return names

    def run(
        self, *command: str, cwd: Path | None = None, variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / command[0], *command[1:]],
            cwd=cwd or self.root.parent,
            env=self.variables(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        return subprocess.Popen(
            [self.root / command[0], *command[1:]],
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @staticmethod
    def variables(more: dict[str, str] | None = None) -> dict[str, str]:
        return os.environ | SURROUNDINGS | (more or {})

    def _write_distribution(
        self, folder: Path, name: str, files: dict[str, str], behaviour: str
    ) -> None:
        information = f"{name}-1.0.dist-info"
        files = files | {
            f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{information}/WHEEL": (
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            f"{information}/RECORD": "",
        }
        backend = BACKEND.format(
            name=name, files=files, behaviour=behaviour, build_log=str(self._build_log)
        )
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (folder / "backend.py").write_text(backend)
