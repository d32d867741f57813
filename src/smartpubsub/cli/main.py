"""The smartpubsub command's entry point: its subcommands, and how errors end it."""

import os
import sys
from collections.abc import Sequence

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup
from smartpubsub.errors import SmartPubSubError

FAILURE = 1
INTERRUPTED = 130

COMMANDS = {
    "demo": LazyCommand("smartpubsub.cli.demo:demo", "Show what SmartPubSub does."),
    "doctor": LazyCommand("smartpubsub.cli.doctor:doctor", "Say what works on this machine."),
    "explain": LazyCommand(
        "smartpubsub.cli.explain:explain", "Say whether an event matches a filter, and why."
    ),
    "bench": LazyCommand("smartpubsub.cli.bench:bench", "Measure SmartPubSub next to its peers."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
@click.version_option(package_name="smartpubsub", message="%(prog)s %(version)s")
def smartpubsub() -> None:
    """Content-based publish/subscribe.

    \b
    Example:
      smartpubsub doctor
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        outcome = smartpubsub.main(arguments, prog_name="smartpubsub", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SmartPubSubError as error:
        click.echo(f"smartpubsub: {error}", err=True)
        return FAILURE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        discard_further_output()
        return FAILURE
    return outcome if isinstance(outcome, int) else 0


def discard_further_output() -> None:
    """Keep the interpreter from failing on the closed output once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
