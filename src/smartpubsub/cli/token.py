"""smartpubsub token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.extras import needing
from smartpubsub.cli.node.options import configured, data_option
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.node.api.past import time_us
from smartpubsub.protocols.blocks import time_text

if TYPE_CHECKING:
    from smartpubsub.gateway.tokens import TokenFile

DAYS_DEFAULT = 90
_SCOPES = ("read", "publish", "admin")


@click.group()
def token() -> None:
    """Make and revoke tokens of the HTTP gateway.

    A gateway that others can reach serves only clients with a token. The node stores a hash of each
    token, not the token.

    \b
    Example:
      smartpubsub token create dashboard --scope read
    """


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    required=True,
    help="What the token allows; may be repeated. admin allows everything.",
)
@click.option(
    "--days",
    type=click.IntRange(0, 36_500),
    default=DAYS_DEFAULT,
    show_default=True,
    help="How long the token is good; 0 for ever.",
)
@data_option
@json_option
def create(name: str, scopes: tuple[str, ...], days: int, data: str | None, as_json: bool) -> None:
    """Make a token, and print it once.

    \b
    Example:
      smartpubsub token create sensor --scope publish --days 365
    """
    from smartpubsub.gateway.operations import Scope

    wanted = [Scope(scope) for scope in dict.fromkeys(scopes)]
    text = _tokens(data).create(name, wanted, timedelta(days=days) if days else None)
    if as_json:
        print_json({"name": name, "token": text, "scopes": [scope.value for scope in wanted]})
    else:
        click.echo(text)


@token.command(name="list")
@data_option
@json_option
def list_tokens(data: str | None, as_json: bool) -> None:
    """List the tokens.

    \b
    Example:
      smartpubsub token list --json
    """
    documents = [
        {
            "name": token.name,
            "scopes": [scope.value for scope in token.scopes],
            "created": time_text(time_us(token.created)),
            "expires": time_text(time_us(token.expires)) if token.expires else None,
        }
        for token in _tokens(data).all()
    ]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        expires = document["expires"] or "never"
        click.echo(f"{document['name']}  {' '.join(document['scopes'] or ())}  expires {expires}")
    if not documents:
        click.echo("There are no tokens. Make one with: smartpubsub token create NAME --scope read")


@token.command()
@click.argument("name")
@data_option
def revoke(name: str, data: str | None) -> None:
    """Revoke a token; a running gateway refuses it from now on.

    \b
    Example:
      smartpubsub token revoke dashboard
    """
    _tokens(data).revoke(name)


def _tokens(data: str | None) -> TokenFile:
    with needing("the gateway", "gateway"):
        from smartpubsub.gateway.tokens import TokenFile
    return TokenFile(configured({"data": data}).data)
