"""The command reference, docs/cli.md, generated from the help of the commands.

To regenerate it: python -m smartpubsub.cli.reference > docs/cli.md
"""

from collections.abc import Iterator

import click

from smartpubsub.cli.commands import HELP_NAMES, smartpubsub

LINE_WIDTH = 90


def render() -> str:
    sections = [
        f"## {path}\n\n```text\n{help_of(command, path)}\n```\n" for path, command in commands()
    ]
    return "\n".join(["# Command reference\n", *sections])


def commands() -> Iterator[tuple[str, click.Command]]:
    """The smartpubsub command and all its subcommands, each with the words that call it."""
    yield from commands_below("smartpubsub", smartpubsub)


def commands_below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand is not None:
                yield from commands_below(f"{path} {name}", subcommand)


def help_of(command: click.Command, path: str) -> str:
    context = click.Context(
        command, info_name=path, terminal_width=LINE_WIDTH, help_option_names=HELP_NAMES
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


if __name__ == "__main__":
    click.echo(render(), nl=False)
