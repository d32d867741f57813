"""smartpubsub topic."""

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("smartpubsub.cli.topic.make:create", "Make a topic."),
    "list": LazyCommand(
        "smartpubsub.cli.topic.show:list_", "List the topics that the node has to do with."
    ),
    "update": LazyCommand("smartpubsub.cli.topic.make:update", "Make a new version of a topic."),
    "show": LazyCommand(
        "smartpubsub.cli.topic.show:show", "Show whose a topic is, its rules, and its versions."
    ),
    "publish": LazyCommand("smartpubsub.cli.topic.publish:publish", "Publish in a topic."),
    "subscribe": LazyCommand(
        "smartpubsub.cli.topic.read:subscribe", "Print a topic's events as they come."
    ),
    "history": LazyCommand("smartpubsub.cli.topic.read:history", "Print a topic's events so far."),
    "pin": LazyCommand("smartpubsub.cli.topic.show:pin", "Have the node keep all of a topic."),
    "unpin": LazyCommand(
        "smartpubsub.cli.topic.show:unpin", "Have the node keep no more of a topic than of others."
    ),
    "export": LazyCommand(
        "smartpubsub.cli.topic.files:export", "Write all of a topic to a CAR file."
    ),
    "import": LazyCommand(
        "smartpubsub.cli.topic.files:import_", "Have the node keep what is in a CAR file."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def topic() -> None:
    """Make topics whose events stay, publish and read them.

    A topic is named by its content id, which topic create prints. Its events are blocks that
    anybody can verify, linked to those before them.

    \b
    Examples:
      smartpubsub topic create news --ordered
      smartpubsub topic publish bafyrei… 'hello'
      smartpubsub topic subscribe bafyrei… --last 10
    """
