"""requirements.txt is the complete list of what is installed, and all of it fits together."""

import re
import subprocess
import sys
from importlib.metadata import metadata

from packaging.specifiers import SpecifierSet

from tests.setup.fake_checkout import REAL_CHECKOUT

LINES = (REAL_CHECKOUT / "requirements.txt").read_text().splitlines()


def test_every_line_is_one_package_at_one_version() -> None:
    assert [
        line for line in LINES if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+(post[0-9]+)?", line)
    ] == []


def test_packages_are_listed_once_and_in_order() -> None:
    names = [line.partition("==")[0] for line in LINES]
    assert names == sorted(set(names))


def test_every_package_can_be_installed_with_the_oldest_python_that_is_promised() -> None:
    """Distributions ship the first releases of a version."""
    names = [line.partition("==")[0] for line in LINES]
    wanted = {name: str(metadata(name).json.get("requires_python", "")) for name in names}

    assert {n: text for n, text in wanted.items() if "3.11.0" not in SpecifierSet(text)} == {}


# libp2p pins a version that has no wheels; the one here has them and does what libp2p asks of it.
KNOWN_CONFLICTS = [
    'libp2p 0.8.1 has requirement fastecdsa==2.3.2; sys_platform != "win32",'
    " but you have fastecdsa 4.0.0."
]


def test_nothing_installed_is_broken_but_what_is_known() -> None:
    result = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert result.stdout.splitlines() == KNOWN_CONFLICTS
