"""Looks for inputs that raise other errors than declared: `bin/fuzz [--minutes N] [TARGET...]`.

A case is a target and a seed, which give the same inputs every time. The corpus has the cases that
have failed once; they come first. `bin/fuzz native` fuzzes the native engine under the address and
undefined-behaviour sanitizers; it needs CMake and a compiler that has them.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from tests.fuzz.engines import NATIVE_TARGETS
from tests.fuzz.sanitized import SANITIZED, run_sanitized

if SANITIZED in os.environ:
    TARGETS = NATIVE_TARGETS
else:
    from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).with_name("corpus.json")
CASE_S_MAX = 20.0
"""A case that takes longer has failed: no input may keep a node busy for so long."""
TOLD_EVERY_S = 10.0


def failure_of(target: str, seed: str) -> str:
    """Run a case; return the traceback if it fails, or an empty text."""
    began = time.process_time()
    try:
        TARGETS[target](Random(seed))
    except Exception:
        return traceback.format_exc()
    took_s = time.process_time() - began
    return f"it takes {took_s:.0f} s of CPU" if took_s > CASE_S_MAX else ""


def main(arguments: list[str]) -> int:
    """Fuzz some targets, or all, in turn."""
    if "native" in arguments and SANITIZED not in os.environ:
        return run_sanitized(arguments)
    options = _options(arguments)
    targets = options.targets or list(TARGETS)
    if targets == ["native"]:
        targets = list(NATIVE_TARGETS)
    began = told = time.monotonic()
    first = options.seed or secrets.token_hex(4)
    cases, failures = Counter[str](), dict[str, str]()
    corpus: list[str] = json.loads(CORPUS.read_text())
    known = [case for case in corpus if case.partition(":")[0] in targets]
    waiting = [options.case] if options.case else known
    _say(f"seed {first}; repeat it with --seed {first}")
    number = 0
    while waiting or (not options.case and time.monotonic() - began < options.minutes * 60):
        if waiting:
            target, _, seed = waiting.pop().partition(":")
        else:
            target, seed = targets[number % len(targets)], f"{first}-{number}"
            number += 1
        cases[target] += 1
        if failure := failure_of(target, seed):
            place = failure.strip().splitlines()[-2:]
            if failures.setdefault("\n".join(place), f"{target}:{seed}") == f"{target}:{seed}":
                _say(f"{target}:{seed} fails:\n{failure}")
        if time.monotonic() - told > TOLD_EVERY_S:
            told = time.monotonic()
            _say(f"{told - began:.0f} s, {cases.total():,} cases, {len(failures)} failures")
    took_s = time.monotonic() - began
    found = {"seed": first, "seconds": round(took_s), "cases": cases, "failures": failures}
    if options.json:
        print(json.dumps(found))  # noqa: T201
    _say(f"{took_s:.0f} s, {cases.total():,} cases, {len(failures)} failures")
    for case in failures.values():
        _say(f"repeat with: bin/fuzz --case {case}")
    return 1 if failures else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long; 1 by default")
    parser.add_argument("--seed", help="the seed of a run to repeat")
    parser.add_argument("--case", help="a single case to repeat, TARGET:SEED")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.targets if name not in TARGETS]
    if options.targets == ["native"]:
        unknown = []
    if options.case and options.case.partition(":")[0] not in TARGETS:
        unknown = [options.case]
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    return options


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
