"""Access control of the gateway, before a request reaches its operation.

Any page in a browser on the node's machine can make that browser send requests. So the `Host` has
to be a name of the gateway (node/control/host_names.py). A request for more than the page and a
WebSocket must have no `Origin`, or that of the gateway itself. A browser sends no `Origin` with
some requests of pages of other origins, and says in `Sec-Fetch-Site` where they come from. Such a
page could not read the answer, but a stream takes a subscription, and a kept one from its reader.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import trio
from starlette.requests import HTTPConnection

from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.tokens import TokenError, TokenFile
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.control.host_names import LOCALHOST, HostNames, name_of
from smartpubsub.protocols.runtime.bounded import BoundedDict

OWN_SITES = frozenset({"same-origin", "none"})
"""Requests of the gateway's own page, and of the user."""
CLIENT_COUNT_MAX = 4_096
RECHECK_S = 15.0
"""How often the token of an open stream is checked again."""
REQUESTS_PER_S_MAX = 500
"""Requests of one client in a second; an idle client may send as many at once."""

_log = logging.getLogger(__name__)
_MAKE_ONE = "make one with: smartpubsub token create"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOCALHOST


class Access:
    """Checks requests."""

    def __init__(
        self,
        at: Endpoint,
        tokens: TokenFile,
        *,
        hosts: Sequence[str] = (),
        requests_per_s_max: int = REQUESTS_PER_S_MAX,
    ) -> None:
        self.needs_token = not is_loopback(at.host)
        self._tokens = tokens
        self._hosts = HostNames(hosts)
        self._rate = requests_per_s_max
        self._allowances: BoundedDict[str, tuple[float, float]] = BoundedDict(CLIENT_COUNT_MAX)
        """By client: the requests that it might send at once, and when that was computed."""

    def check(self, connection: HTTPConnection, scope: Scope | None) -> None:
        """Raise `ProblemError` unless a request is allowed."""
        if scope is None:
            self._check_host(connection)
            self.check_rate(connection)
            return
        self.check_place(connection)
        if self.needs_token:
            self.check_token(bearer(connection), scope)

    def check_place(self, connection: HTTPConnection) -> None:
        """Check the host, the origin and the rate of a request, but not its token."""
        self._check_host(connection)
        self._check_origin(connection)
        self.check_rate(connection)

    def check_token(self, text: str | None, scope: Scope | None) -> None:
        """Check a token; without a scope, any known token suffices."""
        wanted = "" if scope is None else f' scope="{scope.value}"'
        challenge = {"WWW-Authenticate": f"Bearer{wanted}"}
        if text is None:
            detail = f"send a token: Authorization: Bearer ...; {_MAKE_ONE}"
            raise ProblemError(401, detail, headers=challenge)
        try:
            token = self._tokens.find(text)
        except TokenError as error:
            _log.warning("the tokens cannot be read", extra={"fields": {"problem": error}})
            raise ProblemError(503, "the node cannot read its tokens; its log says why") from None
        now = datetime.now(UTC)
        if token is None or (token.expires is not None and now >= token.expires):
            detail = f"the token is not known, or has expired; {_MAKE_ONE}"
            raise ProblemError(401, detail, headers=challenge)
        if scope is not None and not token.allows(scope, now):
            raise ProblemError(403, f"the token {token.name!r} has not the scope {scope.value}")

    def permit(self, token: str | None, scope: Scope | None) -> Permit:
        """Make the permit of a stream that a token with a scope has opened."""
        return Permit(self, token if self.needs_token else None, scope)

    def _check_host(self, connection: HTTPConnection) -> None:
        host = connection.headers.get("host", "")
        if not self._hosts.has(host):
            raise ProblemError(
                421,
                f"this gateway is not called {name_of(host)[:100]!r}; use its address, or list the"
                " name in the setting http_hosts",
            )

    def _check_origin(self, connection: HTTPConnection) -> None:
        origin = connection.headers.get("origin")
        if origin is None:
            is_own = connection.headers.get("sec-fetch-site", "none") in OWN_SITES
        else:
            host = connection.headers.get("host", "")
            is_own = origin.partition("://")[2].lower() == host.lower()
        if not is_own:
            raise ProblemError(403, "pages of other origins may not use this gateway")

    def check_rate(self, connection: HTTPConnection) -> None:
        """Check a client's rate of requests."""
        client = connection.client.host if connection.client else ""
        now = trio.current_time()
        allowance, at = self._allowances.get(client, (float(self._rate), now))
        allowance = min(float(self._rate), allowance + (now - at) * self._rate)
        if allowance < 1:
            raise ProblemError(
                429,
                f"more than {self._rate} requests in a second; send fewer",
                headers={"Retry-After": "1"},
            )
        self._allowances[client] = (allowance - 1, now)


class Permit:
    """Whether a stream may go on: a token may expire or be revoked while the stream is open."""

    def __init__(self, access: Access, token: str | None, scope: Scope | None) -> None:
        self._access = access
        self._token = token
        self._scope = scope
        self._checked_at = trio.current_time()

    def check(self) -> None:
        """Raise `ProblemError` if the token is no longer good; it is read now and then."""
        now = trio.current_time()
        if self._token is not None and now - self._checked_at >= RECHECK_S:
            self._checked_at = now
            self._access.check_token(self._token, self._scope)


def bearer(connection: HTTPConnection) -> str | None:
    """The token that a client sends."""
    kind, _, text = connection.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" and text.strip() else None
