"""Options that name a registered protocol, or a variant of one."""

from __future__ import annotations

from typing import Any

import click

from smartpubsub.protocols.registry import PROTOCOLS, UnknownProtocolError, protocol_names, spec_of


class ProtocolName(click.ParamType[str]):
    """The name of a protocol."""

    name = "protocol"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Show all protocols."""
        return f"[{'|'.join(protocol_names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a protocol that is not registered, and list the registered ones."""
        try:
            return spec_of(value).name
        except UnknownProtocolError as error:
            self.fail(str(error), param, ctx)


class VariantName(click.ParamType[str]):
    """The name of a variant of any protocol."""

    name = "variant"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Show the variants of all protocols."""
        return f"[{'|'.join(PROTOCOLS.variants())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a variant that no protocol has."""
        found: str = click.Choice(PROTOCOLS.variants()).convert(value, param, ctx)
        return found
