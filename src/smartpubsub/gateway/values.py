"""Parameters that several operations read."""

from __future__ import annotations

from smartpubsub.gateway.problems import ProblemError
from smartpubsub.node.api.node import Node
from smartpubsub.predicates import Predicate, PredicateError


def predicate_of(filter: str | None, where: str | None, node: Node) -> Predicate:
    """Read a filter in the notation of predicates, or an SQL-like condition."""
    if (filter is None) == (where is None):
        raise ProblemError(400, "send either filter= or where=")
    limit = node.config.attribute_count_max
    try:
        if where is not None:
            return Predicate.where(where, limit)
        assert filter is not None
        return Predicate.parse(filter, limit)
    except PredicateError as error:
        raise ProblemError(400, f"{'filter' if where is None else 'where'}: {error}") from None
