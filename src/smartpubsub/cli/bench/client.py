"""smartpubsub bench client."""

import click

from smartpubsub.cli.output import json_option, print_json
from smartpubsub.errors import SmartPubSubError


@click.command()
@json_option
def client(as_json: bool) -> None:
    """Measure pub beside an empty Python program, and the memory of an idle node.

    Starts a node, and runs pub and python -c pass in turn; takes the least time of each. The
    processor time of pub does not include that of the node. Takes less than a minute. The exit code
    is 0 whatever the ratios are.

    \b
    Examples:
      smartpubsub bench client
      smartpubsub bench client --json
    """
    try:
        from smartpubsub.bench.client import run
    except ModuleNotFoundError as error:
        raise SmartPubSubError(
            f"the benchmark needs {error.name}; install it with:"
            " pip install 'smartpubsub[bench,node]'"
        ) from None
    report = run(lambda step: click.echo(step, err=True))
    if as_json:
        print_json(report.document())
    else:
        click.echo(report.text())
