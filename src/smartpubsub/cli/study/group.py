"""smartpubsub sim study."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "replication": LazyCommand(
        "smartpubsub.cli.study.replication:replication",
        "Show the cost of replicating subscriptions.",
    ),
    "redirect": LazyCommand(
        "smartpubsub.cli.study.redirect:redirect",
        "Show what shortcuts save for events that few nodes want.",
    ),
    "load": LazyCommand(
        "smartpubsub.cli.study.load:load", "Show how evenly the load is spread over the nodes."
    ),
    "overload": LazyCommand(
        "smartpubsub.cli.study.overload:overload",
        "Show what happens when events outrun the links.",
    ),
    "churn": LazyCommand(
        "smartpubsub.cli.study.churn:churn",
        "Show whether events reach all subscribers while nodes are replaced.",
    ),
    "adversaries": LazyCommand(
        "smartpubsub.cli.study.adversaries:adversaries",
        "Show how lying nodes affect honest nodes, in all protocols.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def study() -> None:
    """Study ScoutSubs under load, failures and churn.

    Each study runs several experiments that differ in one parameter, and shows them side by side.

    \b
    Examples:
      smartpubsub sim study redirect
      smartpubsub sim study churn --cycles 3 --json
    """
