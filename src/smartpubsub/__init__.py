"""Content-based publish/subscribe: say what you want by content, and get it."""

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Interval, Predicate, PredicateError

__all__ = ["Interval", "Predicate", "PredicateError", "SmartPubSubError"]
