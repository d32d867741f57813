"""The result of a check of the machine."""

from dataclasses import dataclass

ALWAYS = "always"
FOR_NODES = "to run nodes"
FOR_SPEED = "for speed"
FOR_DEVELOPMENT = "for development"
FOR_THE_PIPELINE = "for the data pipeline"


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    needed: str
    found: str
    remedy: str
    """How to make the check pass; empty when it does."""


def verdict(name: str, *, ok: bool, needed: str, found: str, remedy: str) -> Check:
    return Check(name, ok, needed, found, "" if ok else remedy)
