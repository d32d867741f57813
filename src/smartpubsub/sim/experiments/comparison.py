"""Results of several protocols in the same world, side by side."""

from __future__ import annotations

from smartpubsub.sim.experiments.running import Run
from smartpubsub.sim.judging.result import Result


def compared(result: Result) -> dict[str, object]:
    """A result, with two further figures."""
    document = result.document()
    deliveries = result.verdict.delivered
    messages = sum(node.sent for node in result.experiment.traffic())
    return {
        **document,
        "messages_per_delivery": round(messages / deliveries, 3) if deliveries else None,
        "carried_for_nothing": carried_for_nothing(result.experiment),
    }


def carried_for_nothing(run: Run) -> int:
    """The number of copies of events sent down to nodes that did not want them."""
    wanting = {
        event.id: {
            record.node: None
            for record in run.observer.oracle.interested(event.predicate)
            if record.is_in_force(event.called_us)
        }
        for event in run.observer.journal.events.values()
    }
    return sum(
        count
        for (node, id), count in run.observer.copies.items()
        if node not in wanting.get(id, ())
    )
