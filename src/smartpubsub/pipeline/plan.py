"""Plans: many experiments in one file, and the runs that they stand for.

A plan is TOML. Its blocks `[[experiment]]` have the options of `sim run` as keys; lists stand for
several values, and every combination is run. `[defaults]` apply to all blocks.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.pipeline.plan_values import KEYS, PlanError, listed
from smartpubsub.pipeline.toml_text import shown
from smartpubsub.protocols.registry import protocol_names, spec_of
from smartpubsub.sim.experiments.options import SimOptions

RUNS_MAX = 1_000_000
PAPERS = ("smartpubsub-2021", "pulsarcast-2021")
"""The papers that a report can show beside the results."""

_TOP = ("title", "about", "paper", "defaults", "experiment")
_NO_VARIANT = "redirect-reliable"
"""The variant in the ids of runs without one; another value would change the ids."""
_BLOCK = ("name", "traces")
"""The keys of a block that are not options of its runs."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run: its name, its experiment, and everything that its result depends on."""

    experiment: str
    """The experiment that it belongs to."""
    protocol: str
    variant: str
    """Empty if the protocol has no variants."""
    options: SimOptions
    has_trace: bool = False
    """Whether to keep its trace, for `measure`."""

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return self.options.command(self.protocol, self.variant)

    @cached_property
    def id(self) -> str:
        """A name that depends only on the parameters of the run.

        It begins with a letter, so that Spark does not read it from a path as a number.
        """
        words = {"protocol": self.protocol, "variant": self.variant or _NO_VARIANT}
        # Defaults are left out, so that a new option does not change existing names.
        for field in fields(self.options):
            value = getattr(self.options, field.name)
            if value != field.default:
                words[field.name] = (
                    " ".join(map(str, value)) if type(value) is tuple else str(value)
                )
        if self.options.workload is not None:
            # The content of a file matters, not its path.
            words["workload"] = hashlib.sha256(self.options.workload.read_bytes()).hexdigest()
        written = json.dumps(words, sort_keys=True)
        return "r" + hashlib.sha256(written.encode()).hexdigest()[:15]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All runs, each once, in the order of the file."""

    title: str
    about: str
    paper: str | None
    """The paper whose figures are shown beside the results."""
    runs: Mapping[str, PlannedRun]
    """The runs by their ids."""


def read_plan(path: Path) -> Plan:
    """Read a plan; raise PlanError with the key and the remedy if it is invalid."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}; give the path of a plan") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not text in UTF-8; a plan is a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path}: not TOML: {error}") from None
    try:
        return _plan(document, path)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _plan(document: Mapping[str, Any], path: Path) -> Plan:
    for key in document:
        if key not in _TOP:
            raise PlanError(f"{key}: no such key; there are {', '.join(_TOP)}")
    defaults = _table(document.get("defaults", {}), "defaults")
    blocks = document.get("experiment", [])
    if not isinstance(blocks, list) or not blocks:
        raise PlanError("experiment: a plan has one block [[experiment]] or more")
    runs: dict[str, PlannedRun] = {}
    for number, block in enumerate(blocks, 1):
        for run in _expanded(_table(block, f"experiment {number}"), defaults, number, path.parent):
            runs.setdefault(run.id, run)
            if len(runs) > RUNS_MAX:
                raise PlanError(f"experiment {number}: more than {RUNS_MAX:,} runs; ask for fewer")
    return Plan(
        title=_text(document, "title", path.stem),
        about=_text(document, "about", ""),
        paper=_paper(document),
        runs=runs,
    )


def _expanded(
    block: Mapping[str, Any], defaults: Mapping[str, Any], number: int, folder: Path
) -> Iterator[PlannedRun]:
    given = {**block, **{key: v for key, v in defaults.items() if key not in block}}
    name = given.pop("name", f"experiment {number}")
    has_trace = given.pop("traces", False)
    place = f"experiment {number}" if name == f"experiment {number}" else f"experiment {name!r}"
    if not isinstance(name, str):
        raise PlanError(f"experiment {number}: name: a text, found {shown(name)}")
    if not isinstance(has_trace, bool):
        raise PlanError(f"{place}: traces: true or false, found {shown(has_trace)}")
    if "protocol" not in given:
        raise PlanError(
            f"{place}: protocol: say which, one or more of {', '.join(protocol_names())}"
        )
    values = {key: listed(key, value, place) for key, value in given.items()}
    for chosen in product(*values.values()):
        words = dict(zip(values, chosen, strict=True))
        protocol, variant = words.pop("protocol"), words.pop("variant", None)
        if "workload" in words:
            words["workload"] = folder / words["workload"]
            if not words["workload"].is_file():
                raise PlanError(f"{place}: workload: no file {words['workload']}")
        options = SimOptions(**words)
        try:
            variant = spec_of(protocol).variant(variant)
            options.check()
        except SmartPubSubError as error:
            raise PlanError(f"{place}: {error}".replace("--", "")) from None
        yield PlannedRun(
            experiment=name,
            protocol=protocol,
            variant=variant,
            options=options,
            has_trace=has_trace,
        )


def _table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanError(f"{place}: a table of keys and values, found {shown(value)}")
    there = [*_BLOCK, *KEYS]
    for key in value:
        if key not in there:
            raise PlanError(f"{place}: {key}: no such key; there are {', '.join(there)}")
    return value


def _text(document: Mapping[str, Any], key: str, default: str) -> str:
    value = document.get(key, default)
    if not isinstance(value, str):
        raise PlanError(f"{key}: a text, found {shown(value)}")
    return value


def _paper(document: Mapping[str, Any]) -> str | None:
    paper = document.get("paper")
    if paper is not None and paper not in PAPERS:
        raise PlanError(f"paper: {shown(paper)} is none of {', '.join(PAPERS)}; leave it out")
    return paper
