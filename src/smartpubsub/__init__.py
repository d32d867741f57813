"""Content-based publish/subscribe: say what you want by content, and get it."""

from importlib import import_module
from types import ModuleType

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Interval, Predicate, PredicateError

__all__ = ["Interval", "Predicate", "PredicateError", "SmartPubSubError"]


def __getattr__(name: str) -> ModuleType:
    # Arrow takes a while to import, so whoever needs no matching does not wait for it.
    if name == "matching":
        return import_module("smartpubsub.matching")
    raise AttributeError(f"module 'smartpubsub' has no attribute {name!r}")
