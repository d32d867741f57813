"""smartpubsub group."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("smartpubsub.cli.group.own:create", "Own a group to publish in."),
    "list": LazyCommand(
        "smartpubsub.cli.group.own:list_", "List the groups that the node owns or is in."
    ),
    "advertise": LazyCommand(
        "smartpubsub.cli.group.own:advertise", "Let a group be found by searches."
    ),
    "invite": LazyCommand(
        "smartpubsub.cli.group.own:invite", "Invite somebody to a private group."
    ),
    "publish": LazyCommand("smartpubsub.cli.group.own:publish", "Publish an event in a group."),
    "search": LazyCommand("smartpubsub.cli.group.join:search", "Find groups."),
    "join": LazyCommand(
        "smartpubsub.cli.group.join:join", "Be in a group, and print events as they come."
    ),
    "leave": LazyCommand("smartpubsub.cli.group.join:leave", "Leave a group."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def group() -> None:
    """Publish in groups of one's own, and be in others'.

    A group has an owner, who alone publishes in it, and a predicate that its events match. Members
    get its events in two hops at most.

    \b
    Examples:
      smartpubsub group create 'apple/france/price[0,1]'
      smartpubsub group search apple
      smartpubsub group join 'apple/france/price[0,1]' --owner /ip4/192.0.2.1/tcp/4001/p2p/12D3KooW…
    """
