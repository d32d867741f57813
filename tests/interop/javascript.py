"""JavaScript programs beside a test: their packages, starting them, and talking to them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trio

CHECKOUT = Path(__file__).parents[2]
CLIENT = CHECKOUT / "examples" / "js-client"
NODE_VERSION_MIN = 20
INSTALL_S_MAX = 90
ANSWER_S_MAX = 60
OUR_MISTAKES = ("E404", "ETARGET", "EJSONPARSE", "EINVALIDPACKAGENAME")
"""What npm says if the list of packages is wrong; all else is the machine's or the network's."""


def require_packages() -> None:
    """Have the client's packages in its folder, or skip the test."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)


@cache
def _missing() -> str | None:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    version = _output("node", "--version").strip()
    if int(version.lstrip("v").partition(".")[0]) < NODE_VERSION_MIN:
        return f"Node.js {version} is older than {NODE_VERSION_MIN}"
    wanted = hashlib.sha256((CLIENT / "package.json").read_bytes()).hexdigest()
    marker = CLIENT / "node_modules" / ".installed-from"
    if not marker.is_file() or marker.read_text() != wanted:
        problem = _install()
        if problem is not None:
            return f"npm could not install the packages: {problem}"
        marker.write_text(wanted)
    return None


def _install() -> str | None:
    quietly = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    # Usually it tries for minutes, but a registry that does not answer is no reason to wait.
    briefly = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000"]
    try:
        done = subprocess.run(
            ["npm", "install", *quietly, *briefly],
            cwd=CLIENT,
            capture_output=True,
            text=True,
            timeout=INSTALL_S_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {INSTALL_S_MAX} s"
    if done.returncode == 0:
        return None
    assert not any(mistake in done.stderr for mistake in OUR_MISTAKES), done.stderr
    complaints = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
    return complaints[0] if complaints else f"it ended with {done.returncode}"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Script:
    """A program that runs, and writes a JSON document in each line."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._taken = b""

    async def said(self) -> Any:
        """What the next line says."""
        assert self._process.stdout is not None
        with trio.fail_after(ANSWER_S_MAX):
            while b"\n" not in self._taken:
                some = await self._process.stdout.receive_some()
                assert some, "the program has ended; standard error says why"
                self._taken += some
        line, _, self._taken = self._taken.partition(b"\n")
        return json.loads(line)

    async def ask(self, *command: str) -> Any:
        """What the program answers to a command."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(command).encode() + b"\n")
        answer = await self.said()
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    async def finish(self) -> None:
        """Have it end, by ending its input."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()

    async def ended(self) -> int:
        """Its exit code."""
        with trio.fail_after(ANSWER_S_MAX):
            return await self._process.wait()


@asynccontextmanager
async def running(*arguments: str, **variables: str) -> AsyncIterator[Script]:
    """A program of Node.js that ends with the test, started among the client's files."""
    process = await trio.lowlevel.open_process(
        ["node", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=CLIENT,
        env=os.environ | variables,
    )
    try:
        yield Script(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
