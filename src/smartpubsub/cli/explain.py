"""smartpubsub explain."""

from collections.abc import Callable, Sequence

import click

from smartpubsub.cli.output import json_option, print_json
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate, PredicateError, Verdict
from smartpubsub.predicates import explain as explain_match

UNREADABLE = 2


@click.command()
@click.argument("filter_text", metavar="FILTER")
@click.argument("event_text", metavar="EVENT")
@click.option("--where", is_flag=True, help="Read FILTER as an SQL-like condition.")
@click.option(
    "--attributes-max",
    type=click.IntRange(min=1),
    default=ATTRIBUTES_MAX,
    show_default=True,
    help="The maximum number of attributes of a predicate.",
)
@json_option
def explain(
    filter_text: str, event_text: str, where: bool, attributes_max: int, as_json: bool
) -> None:
    """Show whether an event matches a filter, and why.

    A filter is a list of topics and ranges; an event has the same notation. Ranges include their
    bounds, a missing bound is open, and dates are numbers. The exit code is 0 whether or not the
    event matches, and 2 if one of the two cannot be parsed.

    \b
    Examples:
      smartpubsub explain 'surf/price[10,20]' 'surf/portugal/price=15'
      smartpubsub explain 'date[2007-01-01,]' 'date=2006-12-31'
      smartpubsub explain --where 'surf and price <= 20' 'surf/price=25' --json
    """
    read_filter = Predicate.where if where else Predicate.parse
    filter = read("FILTER", filter_text, read_filter, attributes_max)
    event = read("EVENT", event_text, Predicate.parse, attributes_max)
    verdicts = explain_match(filter, event)
    matches = all(verdict.met for verdict in verdicts)
    if as_json:
        print_json(
            {
                "matches": matches,
                "filter": str(filter),
                "event": str(event),
                "attributes": [verdict._asdict() for verdict in verdicts],
            }
        )
    else:
        click.echo(f"{event} {'matches' if matches else 'does not match'} {filter}")
        click.echo(table(verdicts))


class UnreadableError(click.ClickException):
    """A predicate that cannot be parsed is a usage error."""

    exit_code = UNREADABLE


def read(
    name: str, text: str, reader: Callable[[str, int], Predicate], attributes_max: int
) -> Predicate:
    """Parse an argument as a predicate; raise a usage error that names the argument and the
    column."""
    try:
        return reader(text, attributes_max)
    except PredicateError as error:
        raise UnreadableError(f"{name}, {error}\n{error.pointer()}".rstrip()) from None


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each attribute of the filter."""
    width = max(len(verdict.wanted) for verdict in verdicts)
    return "\n".join(
        f"  {'met    ' if verdict.met else 'not met'}  {verdict.wanted:<{width}}  "
        f"{'event has ' + verdict.got if verdict.got else 'event has no such attribute'}"
        for verdict in verdicts
    )
