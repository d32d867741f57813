"""Checks that simulated runs are what they were: `bin/golden [check|update] [PROTOCOL...]`."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.golden.cases import RANDOM_WORLDS, Case, cases
from tests.golden.recording import Golden

DIGESTS = Path(__file__).with_name("digests.json")


def main(arguments: list[str]) -> int:
    """Check or update the digests of some protocols, or of all."""
    verb, *named = arguments or ["check"]
    unknown = [name for name in named if name not in RANDOM_WORLDS]
    if verb not in ("check", "update") or unknown:
        _say(f"usage: bin/golden [check|update] [{'|'.join(RANDOM_WORLDS)}]...")
        return 2
    began = time.monotonic()
    chosen = list(cases(tuple(named) or tuple(RANDOM_WORLDS)))
    kept: dict[str, list[str]] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    found = _record_all(chosen, kept)
    changed = [name for name, golden in found.items() if kept.get(name) != list(golden)]
    if verb == "update":
        names = [case.name for case in cases()]
        kept |= {name: list(golden) for name, golden in found.items()}
        kept = {name: kept[name] for name in names if name in kept}
        lines = [f"{json.dumps(name)}: {json.dumps(both)}" for name, both in kept.items()]
        DIGESTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    took_s = time.monotonic() - began
    _say(f"{len(found)} runs, {len(changed)} changed, {took_s:.0f} s")
    return 1 if changed and verb == "check" else 0


def _record_all(chosen: list[Case], kept: dict[str, list[str]]) -> dict[str, Golden]:
    found: dict[str, Golden] = {}
    with ProcessPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for case, golden in zip(chosen, pool.map(Case.record, chosen), strict=True):
            found[case.name] = golden
            if (before := kept.get(case.name)) != list(golden):
                _say(f"{'new' if before is None else 'changed'}: {case.name}")
    return found


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
