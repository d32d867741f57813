"""A click group that imports a command's module only when that command is used."""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class LazyCommand:
    target: str
    """Where the command is, as "module:attribute"."""
    summary: str
    """The first line of the command's help, known without importing it."""

    def load(self) -> click.Command:
        module_name, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module_name), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.target} is not a click command")
        return command


class LazyGroup(click.Group):
    def __init__(self, *, lazy_commands: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(**settings)
        self.lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.lazy_commands.get(cmd_name)
        return entry.load() if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            similar = difflib.get_close_matches(args[0], self.lazy_commands)
            if not similar:
                raise
            hint = f"{error.message} Did you mean {' or '.join(similar)}?"
            raise click.UsageError(hint, error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.summary) for name, entry in self.lazy_commands.items()]
            )
