"""The allowed values of each key of a plan's experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.id_work import BITS_MAX
from smartpubsub.pipeline.toml_text import shown
from smartpubsub.protocols.registry import PROTOCOLS, protocol_names
from smartpubsub.protocols.spec import RESILIENCES
from smartpubsub.sim.adversaries.kinds import Adversary, AdversaryError
from smartpubsub.sim.experiments.options import Churning, Cutting
from smartpubsub.workloads import SCENARIOS

VALUES_MAX = 100_000
"""The maximum length of a list."""


class PlanError(SmartPubSubError, ValueError):
    """An invalid plan: the wrong key, and what is allowed."""


def listed(key: str, value: Any, place: str) -> list[Any]:
    """All values of a key: those of a list, of a range of numbers, or the only one.

    >>> listed("seed", {"from": 1, "to": 3}, "experiment 1")
    [1, 2, 3]
    """
    try:
        if isinstance(value, dict) and key not in ("churn", "cut"):
            value = _numbers(value)
        values = value if isinstance(value, list) else [value]
        if not 1 <= len(values) <= VALUES_MAX:
            raise PlanError(f"1 to {VALUES_MAX:,} values, found {len(values):,}")
        return [KEYS[key](one) for one in values]
    except PlanError as error:
        raise PlanError(f"{place}: {key}: {error}") from None


def _numbers(value: dict[str, Any]) -> list[int]:
    first, last = value.get("from"), value.get("to")
    if value.keys() != {"from", "to"} or type(first) is not int or type(last) is not int:
        raise PlanError(f"a value, a list, or {{ from = 1, to = 10 }}, found {shown(value)}")
    if not 0 <= last - first < VALUES_MAX:
        raise PlanError(f"from {first} to {last}: 1 to {VALUES_MAX:,} numbers")
    return list(range(first, last + 1))


def _protocol(value: Any) -> str:
    names = protocol_names()
    if not isinstance(value, str) or value not in names:
        raise PlanError(f"{shown(value)} is not a protocol; there are {', '.join(names)}")
    return value


def _variant(value: Any) -> str:
    return _one_of(*PROTOCOLS.variants())(value)


def _one_of(*names: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise PlanError(f"{shown(value)} is none of {', '.join(names)}")
        return value

    return check


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise PlanError(f"a whole number from {least:,} to {most:,}, found {shown(value)}")
        return value

    return check


def _number(least: float, most: float) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not least <= value <= most:
            raise PlanError(f"a number from {least:,} to {most:,}, found {shown(value)}")
        return float(value)

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise PlanError(f"true or false, found {shown(value)}")
    return value


def _file(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PlanError(f"the path of a workload file, found {shown(value)}")
    return value


def _churn(value: Any) -> Churning:
    wanted = "{ up_s = 30, down_s = 5 }, and share = 0.2 if only some nodes do it"
    if not isinstance(value, dict) or not {"up_s", "down_s"} <= value.keys():
        raise PlanError(f"{wanted}, found {shown(value)}")
    if value.keys() - {"up_s", "down_s", "share"}:
        raise PlanError(f"{wanted}, found {shown(value)}")
    seconds = _number(0.001, 1e6)
    share = _number(0, 1)(value.get("share", 1.0))
    return Churning(seconds(value["up_s"]), seconds(value["down_s"]), share)


def _cut(value: Any) -> Cutting:
    wanted = "{ at_s = 5, for_s = 30 }, and share = 0.2 if it is not half of the nodes"
    if not isinstance(value, dict) or not {"at_s", "for_s"} <= value.keys():
        raise PlanError(f"{wanted}, found {shown(value)}")
    if value.keys() - {"at_s", "for_s", "share"}:
        raise PlanError(f"{wanted}, found {shown(value)}")
    seconds, share = _number(0, 1e6), _number(0, 1)
    parts = seconds(value["at_s"]), seconds(value["for_s"])
    return Cutting(*parts, share(value.get("share", 0.5)))


def _adversaries(value: Any) -> tuple[Adversary, ...]:
    if not isinstance(value, str) or not value.split():
        raise PlanError(f"one adversary or several, as drop:0.1 flap:0.05, found {shown(value)}")
    try:
        return tuple(map(Adversary.parse, value.split()))
    except AdversaryError as error:
        raise PlanError(str(error)) from None


_COUNT = _whole(1, 10_000_000)
_MS = _number(0, 86_400_000)

KEYS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "protocol": _protocol,
        "variant": _variant,
        "scenario": _one_of(*SCENARIOS),
        "workload": _file,
        "nodes": _whole(1, 1_000_000),
        "seed": _whole(-(2**63), 2**63 - 1),
        "events": _COUNT,
        "publishers": _COUNT,
        "faults": _whole(0, 1_000_000),
        "crash": _one_of("before", "mid"),
        "refuse": _flag,
        "churn": _churn,
        "cut": _cut,
        "ordered": _flag,
        "backups": _whole(0, 100),
        "resilience": _one_of(*RESILIENCES),
        "latency_ms": _MS,
        "jitter_ms": _MS,
        "loss": _number(0, 1),
        "bandwidth_bytes": _whole(1, 1 << 50),
        "regions": _whole(0, 1_000),
        "adversary": _adversaries,
        "id_work_bits": _whole(0, BITS_MAX),
        "peers_per_prefix": _whole(0, 1_000_000),
    }
)
"""The parser of each key, which raises PlanError; the keys are the options of `sim run`."""
