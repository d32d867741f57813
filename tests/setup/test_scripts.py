"""bin/check runs every check; bin/test runs checks, tests and demo, or what it is told."""

from pathlib import Path

import pytest

from tests.setup.fake_checkout import FakeCheckout
from tests.setup.programs import write_program

PROGRAMS = ("ruff", "mypy", "clang-format", "python", "smartpubsub")


@pytest.fixture
def calls(checkout: FakeCheckout) -> Path:
    """Where the stand-ins for the programs in .venv write how they were called."""
    calls = checkout.root / "calls"
    calls.touch()
    (checkout.root / "tools" / "bootstrap.py").write_text("")
    (checkout.root / "native" / "src").mkdir()
    (checkout.root / "native" / "src" / "match.cpp").touch()
    for name in PROGRAMS:
        write_program(checkout.root / ".venv" / "bin" / name, f'echo "{name} $*" >>"{calls}"')
    return calls


def make_fail(checkout: FakeCheckout, program: str) -> None:
    path = checkout.root / ".venv" / "bin" / program
    path.write_text(f"{path.read_text()}exit 9\n")


LIVE = [
    f"tests/{name}"
    for name in (
        *("cli", "client", "gateway", "hostile", "interop", "node", "registry", "setup", "testbed"),
    )
]
SPARK = ["tests/pipeline", "tests/reports"]
TOOLS = [f"tests/{name}" for name in ("bench", "deploy", "examples", "packaging", "site")]
"""The folders of tests that run beside the checks and all other tests, in three parts."""
PROTOCOLS = ["tests/golden", "tests/protocols"]

CHECKS = [
    "ruff format --check",
    "ruff check",
    "mypy ",
    "clang-format --dry-run -Werror native/src/match.cpp",
    "python -m pytest -q tests/tidy",
]


def test_check_runs_every_check(checkout: FakeCheckout, calls: Path) -> None:
    assert checkout.run("bin/check").returncode == 0
    assert calls.read_text().splitlines() == CHECKS


@pytest.mark.parametrize(
    ("program", "named"),
    [("ruff", "ruff format, ruff check"), ("clang-format", "clang-format"), ("python", "tidy")],
)
def test_check_names_what_failed_after_running_all(
    program: str, named: str, checkout: FakeCheckout, calls: Path
) -> None:
    make_fail(checkout, program)

    result = checkout.run("bin/check")

    assert result.returncode == 1
    assert result.stderr == f"bin/check: failed: {named}\n"
    assert calls.read_text().splitlines() == CHECKS


def test_test_runs_checks_tests_and_demo(checkout: FakeCheckout, calls: Path) -> None:
    assert checkout.run("bin/test").returncode == 0

    *before, last = calls.read_text().splitlines()
    assert last == "smartpubsub demo"
    ignored = " ".join(f"--ignore={name}" for name in LIVE + SPARK + TOOLS + PROTOCOLS)
    assert sorted(before) == sorted(
        [
            *CHECKS,
            "python -m tests.fuzz --minutes 1",
            f"python -m pytest {' '.join(LIVE)} -o cache_dir=.pytest_cache/live",
            f"python -m pytest {' '.join(SPARK)} -o cache_dir=.pytest_cache/spark",
            f"python -m pytest {' '.join(TOOLS)} -o cache_dir=.pytest_cache/tools",
            f"python -m pytest {' '.join(PROTOCOLS)} -o cache_dir=.pytest_cache/protocols",
            f"python -m pytest --ignore=tests/tidy {ignored}",
        ]
    )


@pytest.mark.parametrize(
    "failing", [LIVE[0], SPARK[0], TOOLS[0], PROTOCOLS[0], "--ignore=tests/tidy"]
)
def test_test_fails_when_any_part_of_the_tests_does(
    failing: str, checkout: FakeCheckout, calls: Path
) -> None:
    path = checkout.root / ".venv" / "bin" / "python"
    path.write_text(f'{path.read_text()}case "$3" in {failing}) exit 9 ;; esac\n')

    assert checkout.run("bin/test").returncode == 9
    assert calls.read_text().splitlines()[-1] != "smartpubsub demo"


@pytest.mark.parametrize(
    ("count", "second", "expected"),
    [(1, 0, 0), (2, 1, 1), (3, 0, 1)],
    ids=["once", "twice", "many"],
)
def test_test_repeats_a_live_test_that_failed_beside_the_others(
    count: int, second: int, expected: int, checkout: FakeCheckout, calls: Path
) -> None:
    path = checkout.root / ".venv" / "bin" / "python"
    reports = "".join(f"FAILED tests/node/test_{number}.py\\n" for number in range(count))
    path.write_text(
        f"{path.read_text()}"
        f'case "$*" in *--last-failed) exit {second} ;; esac\n'
        f"case \"$3\" in {LIVE[0]}) printf '{reports}'; exit 1 ;; esac\n"
    )

    result = checkout.run("bin/test")

    assert result.returncode == expected
    assert result.stdout.count("FAILED tests/node/test_0.py") == (2 if count <= 2 else 1)
    assert (calls.read_text().splitlines()[-1] == "smartpubsub demo") == (expected == 0)


def test_test_stops_at_a_failing_check(checkout: FakeCheckout, calls: Path) -> None:
    make_fail(checkout, "mypy")

    assert checkout.run("bin/test").returncode == 1
    called = calls.read_text().splitlines()
    assert [call for call in called if call in CHECKS] == CHECKS
    assert not any("--ignore" in call or call == "smartpubsub demo" for call in called)


def test_test_fails_when_the_demo_does(checkout: FakeCheckout, calls: Path) -> None:
    make_fail(checkout, "smartpubsub")

    assert checkout.run("bin/test").returncode == 9
    assert calls.read_text().splitlines()[-1] == "smartpubsub demo"


def test_test_with_arguments_is_pytest_with_them(checkout: FakeCheckout, calls: Path) -> None:
    make_fail(checkout, "python")

    assert checkout.run("bin/test", "tests/cli", "-k", "help").returncode == 9
    assert calls.read_text() == "python -m pytest tests/cli -k help\n"
