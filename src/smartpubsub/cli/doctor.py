"""smartpubsub doctor."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from smartpubsub.cli.checks import ALWAYS, Check
from smartpubsub.cli.health import run_checks
from smartpubsub.cli.output import json_option, print_json


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Show what works on this machine.

    Lists everything that SmartPubSub can use, whether it is available, and how to get it if not.
    The exit code is 0 if everything that is always needed is available, and 1 otherwise.

    \b
    Examples:
      smartpubsub doctor
      smartpubsub doctor --json
    """
    checks = list(run_checks())
    if as_json:
        print_json(report(checks))
    else:
        click.echo(table(checks))
    context.exit(0 if is_healthy(checks) else 1)


def is_healthy(checks: Sequence[Check]) -> bool:
    return all(check.ok for check in checks if check.needed == ALWAYS)


def report(checks: Sequence[Check]) -> dict[str, object]:
    return {"ok": is_healthy(checks), "checks": [asdict(check) for check in checks]}


def table(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    return "\n".join(line for check in checks for line in lines_for(check, width))


def lines_for(check: Check, width: int) -> Iterator[str]:
    state = "ok" if check.ok else "missing"
    yield f"{state:<7}  {check.name:<{width}}  {check.found}"
    if not check.ok:
        yield f"{'':<{7 + 2 + width}}  needed {check.needed}; {check.remedy}"
