"""smartpubsub topic."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("smartpubsub.cli.topic.make:create", "Create a topic."),
    "list": LazyCommand(
        "smartpubsub.cli.topic.show:list_", "List the topics that the node takes part in."
    ),
    "update": LazyCommand("smartpubsub.cli.topic.make:update", "Create a new version of a topic."),
    "show": LazyCommand(
        "smartpubsub.cli.topic.show:show", "Show a topic's author, rules and versions."
    ),
    "publish": LazyCommand("smartpubsub.cli.topic.publish:publish", "Publish an event in a topic."),
    "subscribe": LazyCommand(
        "smartpubsub.cli.topic.read:subscribe", "Print a topic's events as they arrive."
    ),
    "history": LazyCommand("smartpubsub.cli.topic.read:history", "Print a topic's events so far."),
    "pin": LazyCommand("smartpubsub.cli.topic.show:pin", "Keep a whole topic on the node."),
    "unpin": LazyCommand(
        "smartpubsub.cli.topic.show:unpin", "Apply the node's limits to a pinned topic again."
    ),
    "export": LazyCommand(
        "smartpubsub.cli.topic.files:export", "Write a whole topic to a CAR file."
    ),
    "import": LazyCommand(
        "smartpubsub.cli.topic.files:import_", "Import the topics of a CAR file."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def topic() -> None:
    """Create topics whose events stay, publish, and read them.

    A topic is named by its content id, which topic create prints. Its events are blocks that every
    node can verify, linked to their predecessors.

    \b
    Examples:
      smartpubsub topic create news --ordered
      smartpubsub topic publish bafyrei… 'hello'
      smartpubsub topic subscribe bafyrei… --last 10
    """
