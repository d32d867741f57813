"""smartpubsub sim study."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "replication": LazyCommand(
        "smartpubsub.cli.study.replication:replication", "What copies of subscriptions cost."
    ),
    "redirect": LazyCommand(
        "smartpubsub.cli.study.redirect:redirect",
        "What shortcuts save for events that few nodes want.",
    ),
    "load": LazyCommand(
        "smartpubsub.cli.study.load:load", "How evenly the work is spread over the nodes."
    ),
    "overload": LazyCommand(
        "smartpubsub.cli.study.overload:overload",
        "What happens when events come faster than links carry them.",
    ),
    "churn": LazyCommand(
        "smartpubsub.cli.study.churn:churn",
        "Whether events reach everybody while nodes are replaced.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def study() -> None:
    """Study ScoutSubs in situations that its promises are about.

    Each study runs several experiments that differ in one thing, and shows them side by side.

    \b
    Examples:
      smartpubsub sim study redirect
      smartpubsub sim study churn --cycles 3 --json
    """
