"""Predicates: the language of subscriptions and events, with exact numbers."""

from smartpubsub.predicates.attributes import ATTRIBUTES_MAX, Interval
from smartpubsub.predicates.errors import PredicateError
from smartpubsub.predicates.explain import Verdict, explain
from smartpubsub.predicates.predicate import Predicate, as_predicate

__all__ = [
    "ATTRIBUTES_MAX",
    "Interval",
    "Predicate",
    "PredicateError",
    "Verdict",
    "as_predicate",
    "explain",
]
