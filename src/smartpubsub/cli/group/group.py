"""smartpubsub group."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("smartpubsub.cli.group.own:create", "Create a group to publish in."),
    "list": LazyCommand(
        "smartpubsub.cli.group.own:list_", "List the groups that the node owns or has joined."
    ),
    "advertise": LazyCommand(
        "smartpubsub.cli.group.own:advertise", "Make a group visible to searches."
    ),
    "invite": LazyCommand("smartpubsub.cli.group.own:invite", "Invite a peer to a private group."),
    "end": LazyCommand("smartpubsub.cli.group.own:end", "End a group of this node."),
    "publish": LazyCommand("smartpubsub.cli.group.own:publish", "Publish an event in a group."),
    "search": LazyCommand("smartpubsub.cli.group.join:search", "Find groups."),
    "join": LazyCommand(
        "smartpubsub.cli.group.join:join", "Join a group, and print its events as they arrive."
    ),
    "leave": LazyCommand("smartpubsub.cli.group.join:leave", "Leave a group."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def group() -> None:
    """Own groups to publish in, and join groups.

    A group has an owner, the only node that publishes in it, and a predicate that its events match.
    Members get its events in two hops at most.

    \b
    Examples:
      smartpubsub group create 'apple/france/price[0,1]'
      smartpubsub group search apple
      smartpubsub group join 'apple/france/price[0,1]' --owner /ip4/192.0.2.1/tcp/4001/p2p/12D3KooW…
    """
