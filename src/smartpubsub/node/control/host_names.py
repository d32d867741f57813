"""The names by which clients may call a node's HTTP servers.

Any page in a browser on the node's machine can bind its own name to the node's address (DNS
rebinding), and then read what the node answers to its requests. So a server answers only requests
whose `Host` is an IP address, localhost, or a name that the configuration lists.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

LOCALHOST = "localhost"


def name_of(host: str) -> str:
    """The name or the address in a `Host` header.

    >>> name_of("[::1]:9464"), name_of("Node.Example:80")
    ('::1', 'node.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


class HostNames:
    """The names of one server."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset({LOCALHOST, *(name.lower() for name in names)})

    def has(self, host: str) -> bool:
        """Whether a `Host` header names the server."""
        name = name_of(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True
