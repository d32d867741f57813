"""The next command to suggest, built from the current one."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import click
from click.core import ParameterSource


def same_again(context: click.Context, command: str, leave_out: Collection[str]) -> str:
    """The text of another command with the options of this one."""
    words = [command]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in leave_out or not is_given(context, name):
            continue
        value = context.params[name]
        for one in value if type(value) is tuple else (value,):
            words.append(parameter.opts[0])
            if one is not True:
                words.append(shlex.quote(str(one)))
    return " ".join(words)


def is_given(context: click.Context, name: str) -> bool:
    """Whether an option was given explicitly."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
