"""The values that settings may have, read from text or from TOML."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

OFF = "off"
_PORT_MAX = 65_535
_DIGITS_MAX = 19
_NAME_BYTES_MAX = 200
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LISTENING = (("ip4", "tcp"), ("ip6", "tcp"))
_REACHING = tuple((kind, "tcp") for kind in ("ip4", "ip6", "dns", "dns4", "dns6"))
_MEETING = tuple((*shape, "p2p") for shape in _REACHING)


@dataclass(frozen=True)
class Values:
    """The values that a setting may have."""

    allowed: str
    """The allowed values, for error messages."""
    read: Callable[[object], Any]
    """Convert text or a TOML value; raises ValueError if it is not allowed."""


class Endpoint(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def whole(least: int, most: int) -> Values:
    """Whole numbers."""

    def read(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value) if len(value) <= _DIGITS_MAX else most + 1
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError

    return Values(f"a whole number from {least} to {most}", read)


def one_of(names: Sequence[str]) -> Values:
    """One of some names."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        raise ValueError

    return Values(f"{', '.join(names[:-1])} or {names[-1]}", read)


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError


def _folder(value: object) -> Path:
    folder = _file(value)
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ValueError
    return folder


def _file(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError
    try:
        return Path(value).expanduser()
    except RuntimeError as error:  # There is no such user.
        raise ValueError from error


def _endpoint(value: object) -> Endpoint | None:
    if value == OFF:
        return None
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    is_bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if is_bracketed else host
    if not colon or not name or is_bracketed != (":" in name) or any(map(str.isspace, name)):
        raise ValueError
    return Endpoint(name, whole(0, _PORT_MAX).read(port))


def _addresses(shapes: Sequence[tuple[str, ...]]) -> Callable[[object], object]:
    def read(value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")] if value.strip() else []
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(_address(item, shapes) for item in value)

    return read


def _address(value: object, shapes: Sequence[tuple[str, ...]]) -> str:
    if not isinstance(value, str):
        raise ValueError
    try:
        address = Multiaddr(value)
    except MultiaddrError as error:
        raise ValueError from error
    if tuple(protocol.name for protocol in address.protocols()) not in shapes:
        raise ValueError
    return str(address)


def _host_names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")] if value.strip() else []
    if not isinstance(value, list | tuple) or not all(map(_is_host_name, value)):
        raise ValueError
    return tuple(value)


def _is_host_name(value: object) -> bool:
    return isinstance(value, str) and _HOST_NAME.fullmatch(value) is not None


def _name(value: object) -> str:
    if isinstance(value, str) and len(value.encode()) <= _NAME_BYTES_MAX and value.isprintable():
        return value
    raise ValueError


SWITCH = Values("true or false", _switch)
NAME = Values(f"a text of at most {_NAME_BYTES_MAX} bytes", _name)
FOLDER = Values("the path of a folder, which is made if it is not there", _folder)
FILE = Values("the path of a file", _file)
ENDPOINT = Values(f"{OFF}, or a host and a port such as 127.0.0.1:9464", _endpoint)
HOST_NAMES = Values("names of hosts, such as node.example.org", _host_names)
LISTEN_ADDRESSES = Values(
    "addresses /ip4/…/tcp/… or /ip6/…/tcp/…, such as /ip4/0.0.0.0/tcp/4001, or none",
    _addresses(_LISTENING),
)
ANNOUNCED_ADDRESSES = Values(
    "addresses with a host and a port, such as /ip4/192.0.2.1/tcp/4001 or"
    " /dns4/node.example.org/tcp/4001",
    _addresses(_REACHING),
)
PEER_ADDRESSES = Values(
    "addresses that end in a peer id, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3KooW…",
    _addresses(_MEETING),
)
