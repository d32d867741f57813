"""Without a native matcher everything still works, and one line says so."""

import os

from tests.setup.fake_checkout import FakeCheckout


def is_installed(checkout: FakeCheckout) -> bool:
    return any((checkout.root / ".venv").rglob("smartpubsub_native_fake.py"))


def test_no_compiler(ready: FakeCheckout) -> None:
    assert is_installed(ready)

    result = ready.run("bin/smartpubsub", "4", variables={"CXX": "no-such-compiler"})

    assert (result.returncode, result.stdout) == (4, "4\n")
    [line] = [line for line in result.stderr.splitlines() if "native matcher" in line]
    assert "native matcher not built: no C++ compiler was found; the pure-Python engine" in line
    assert not is_installed(ready)


def test_a_failing_build(ready: FakeCheckout) -> None:
    ready.write_native("raise SystemExit('no such header')")

    result = ready.run("bin/smartpubsub", "4")

    assert (result.returncode, result.stdout) == (4, "4\n")
    [line] = [line for line in result.stderr.splitlines() if "not built" in line]
    assert "its build failed (details: " in line
    assert not is_installed(ready)
    assert "no such header" in (ready.root / ".venv" / "setup.log").read_text()
    ready.write_native()
    assert ready.run("bin/smartpubsub").returncode == 0
    assert is_installed(ready)


def test_a_disk_that_is_full_fails_the_set_up(ready: FakeCheckout) -> None:
    ready.write_native("raise OSError(28, 'No space left on device')")

    result = ready.run("bin/smartpubsub")

    assert result.returncode == 1
    assert "no disk space left" in result.stderr.splitlines()[-1]
    assert not ready.marker.exists()


def test_the_demo_begins_while_the_native_matcher_is_built(checkout: FakeCheckout) -> None:
    gate = checkout.root / "gate"
    os.mkfifo(gate)
    checkout.write_native(f"open({str(gate)!r}).close()")  # Its build waits for a writer.

    demo = checkout.start("bin/demo", "4")

    assert demo.stdout is not None
    assert demo.stdout.readline() == "demo|4\n"
    assert not is_installed(checkout)
    assert not checkout.marker.exists()
    gate.open("w").close()
    demo.communicate()  # Until the build has closed its output.
    assert is_installed(checkout)
    assert checkout.marker.exists()
