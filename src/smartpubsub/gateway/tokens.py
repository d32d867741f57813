"""Bearer tokens: made by a command, stored hashed in the data folder."""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from smartpubsub.errors import SmartPubSubError
from smartpubsub.gateway.operations import Scope

FILE = "http-tokens.json"
PREFIX = "sps_"

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a time zone; others cannot be compared with it."""


class TokenError(SmartPubSubError):
    """A token file or a token name that cannot be used."""


class Token(msgspec.Struct):
    """A stored token."""

    name: str
    digest: str
    """SHA-256 of the token, which has 256 random bits: a slow hash would add nothing."""
    scopes: list[Scope]
    created: Time
    expires: Time | None = None

    def allows(self, scope: Scope, now: datetime) -> bool:
        """Whether it is valid for an operation."""
        if self.expires is not None and now >= self.expires:
            return False
        return scope in self.scopes or Scope.ADMIN in self.scopes


class TokenFile:
    """The tokens of a node."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._stamp: tuple[int, int] | None = None
        self._tokens: list[Token] = []

    def all(self) -> list[Token]:
        """Read the tokens, if the file has changed since the last time."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                self._tokens = msgspec.json.decode(self._path.read_bytes(), type=list[Token])
                self._stamp = stamp
        except FileNotFoundError:
            self._tokens, self._stamp = [], None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokenError(
                f"{self._path}: {error}; remove the file and make new tokens"
            ) from None
        return self._tokens

    def create(self, name: str, scopes: list[Scope], lifetime: timedelta | None) -> str:
        """Make a token; return its text, which is stored nowhere."""
        tokens = self.all()
        if any(token.name == name for token in tokens):
            raise TokenError(f"there is a token {name!r}; revoke it first, or choose another name")
        text = PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC)
        expires = None if lifetime is None else now + lifetime
        self._write([*tokens, Token(name, _digest(text), scopes, now, expires)])
        return text

    def revoke(self, name: str) -> None:
        """Remove a token."""
        tokens = self.all()
        left = [token for token in tokens if token.name != name]
        if len(left) == len(tokens):
            names = ", ".join(repr(token.name) for token in tokens) or "none"
            raise TokenError(f"there is no token {name!r}; there are: {names}")
        self._write(left)

    def find(self, text: str) -> Token | None:
        """Find a token by its text."""
        digest = _digest(text).encode()
        found = [t for t in self.all() if secrets.compare_digest(t.digest.encode(), digest)]
        return found[0] if found else None

    def _write(self, tokens: list[Token]) -> None:
        partial = self._path.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(tokens))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        self._stamp = None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
