"""The subcommands of smartpubsub, and how errors end them."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from smartpubsub.cli.lazy import LazyCommand, LazyGroup
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.publishing import complain, discard_further_output, print_failure
from smartpubsub.errors import SmartPubSubError
from smartpubsub.extras import remedy

FAILURE = 1
USAGE = 2

HELP_NAMES = ["-h", "--help"]
COMMANDS = {
    "demo": LazyCommand("smartpubsub.cli.demo:demo", "Show what SmartPubSub does."),
    "doctor": LazyCommand("smartpubsub.cli.doctor:doctor", "Show what works on this machine."),
    "explain": LazyCommand(
        "smartpubsub.cli.explain:explain", "Show whether an event matches a filter, and why."
    ),
    "node": LazyCommand("smartpubsub.cli.node.group:node", "Run and inspect a node."),
    "pub": LazyCommand("smartpubsub.cli.pub:pub", "Publish an event."),
    "sub": LazyCommand("smartpubsub.cli.sub:sub", "Subscribe, and print events as they come."),
    "unsub": LazyCommand("smartpubsub.cli.unsub:unsub", "End a subscription."),
    "event": LazyCommand("smartpubsub.cli.event:event", "Show the state of an event."),
    "why": LazyCommand(
        "smartpubsub.cli.why:why", "Show why an event has arrived at a subscription, or has not."
    ),
    "group": LazyCommand(
        "smartpubsub.cli.group.group:group", "Own groups to publish in, and join groups."
    ),
    "topic": LazyCommand(
        "smartpubsub.cli.topic.group:topic",
        "Create topics whose events stay, publish, and read them.",
    ),
    "token": LazyCommand(
        "smartpubsub.cli.token:token", "Make and revoke tokens of the HTTP gateway."
    ),
    "circle": LazyCommand(
        "smartpubsub.cli.circle:circle",
        "Distribute the keys of payloads that only members can read.",
    ),
    "route": LazyCommand(
        "smartpubsub.cli.route:route", "Show the path of a predicate in a simulated network."
    ),
    "sim": LazyCommand("smartpubsub.cli.sim.group:sim", "Run the protocols in a simulated world."),
    "pipeline": LazyCommand(
        "smartpubsub.cli.pipeline.group:pipeline",
        "Process tables of events and subscriptions, with Spark.",
    ),
    "testbed": LazyCommand(
        "smartpubsub.cli.testbed.group:testbed", "Run the protocols on real nodes on this machine."
    ),
    "bench": LazyCommand(
        "smartpubsub.cli.bench.group:bench", "Measure SmartPubSub beside other systems."
    ),
}


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": HELP_NAMES},
)
@click.version_option(package_name="smartpubsub", message="%(prog)s %(version)s")
def smartpubsub() -> None:
    """Content-based publish/subscribe.

    The exit code is 0 on success, 1 if the operation has failed, 2 if the command line or the
    configuration is wrong, and 130 after Ctrl-C. An error is one line on standard error, and with
    --json also a document on standard output.

    \b
    Example:
      smartpubsub doctor
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code.

    An error is one line on standard error. With --json it is also a document on standard output.
    """
    try:
        with _terminated_as_interrupted():
            outcome = smartpubsub.main(arguments, prog_name="smartpubsub", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except (click.ClickException, SmartPubSubError, ModuleNotFoundError) as error:
        return _fail(error, arguments)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except MemoryError:
        complain("not enough memory; use fewer nodes or events")
        return FAILURE
    except (BrokenPipeError, SystemExit):  # Click turns KeyboardInterrupt into Abort.
        # The reader closed the pipe because it has what it wanted.
        discard_further_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            return _fail(error, arguments)
        discard_further_output()
        complain(f"output: {error.strerror}")
        return FAILURE
    return outcome if isinstance(outcome, int) else 0


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Make SIGTERM end a command as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # Only the main thread has signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_printed(error: Exception) -> bool:
    return isinstance(error, SmartPubSubError) and error.is_printed


def _fail(
    error: click.ClickException | SmartPubSubError | ModuleNotFoundError | OSError,
    arguments: Sequence[str],
) -> int:
    exit_code = FAILURE
    if isinstance(error, click.ClickException):
        exit_code = error.exit_code
        problem = f"{_message(error)}{where_to_look(error)}"
    elif isinstance(error, SmartPubSubError):
        exit_code = USAGE if error.is_usage_error else FAILURE
        problem = str(error)
    elif isinstance(error, OSError):
        problem = f"{error.filename}: {error.strerror}; check this path, or name another"
    else:
        problem = remedy(error)
    complain(problem)
    if "--json" in arguments and not _is_printed(error):
        print_failure({"error": problem, "kind": type(error).__name__, "exit_code": exit_code})
    return exit_code


def _message(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.MissingParameter):
        # Click writes each allowed value on a line of its own.
        return " ".join(message.split())
    return message


def where_to_look(error: click.ClickException) -> str:
    """How to get help with a command that was called wrongly."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" (see: {context.command_path} --help)" if context else ""
