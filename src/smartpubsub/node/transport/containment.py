"""Recovery from an exception of the core: drop the input, and restart the core.

A core that has raised an exception may be half changed, and could acknowledge what it has not
stored. So the host restarts it from storage before it handles anything else. If the input was a
message, its sender is banned.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from smartpubsub.node.identity import peer_text
from smartpubsub.node.transport.bans import Bans
from smartpubsub.seam import Answered, Asked, Peer, Received

_log = logging.getLogger(__name__)

PAUSE_S_FIRST = 0.1
PAUSE_S_MAX = 10.0
CALM_S = 60.0
"""The host restarts a core that has not failed for so long without a pause."""


class Failures(NamedTuple):
    """The failures since the start of a node."""

    dropped: dict[str, int]
    """Inputs dropped because of an exception, by reason."""
    restarts: int
    """How often the core was restarted from storage."""
    banned: int
    """How many peers are banned now."""


class Containment:
    """The failures of a host's core, by reason, and its restarts. Times are in seconds."""

    def __init__(self, bans: Bans) -> None:
        self.failures: Counter[str] = Counter()
        """Inputs dropped because of an exception, by input, exception and place."""
        self.restarts = 0
        self.must_restart = False
        """Whether the core may be half changed."""
        self.pause_s = 0.0
        """For how long to pause before the restart.

        An exception that no peer has caused may happen again at once, for ever.
        """
        self._bans = bans
        self._failed_at = -CALM_S

    def report(self, now: float) -> Failures:
        """Report the failures until now."""
        return Failures(dict(self.failures), self.restarts, self._bans.count(now))

    def drop(self, what: str, error: Exception) -> None:
        """Count a failure that has not changed the core."""
        reason = f"{what}: {type(error).__name__} in {_place_of(error)}"
        self.failures[reason] += 1
        _log.error("%s; it is dropped", reason, exc_info=error)

    def drop_input(self, event: object, error: Exception, now: float) -> Peer | None:
        """Count an input that made the core fail; ban and return its sender, if a peer sent it."""
        if not isinstance(event, Received | Asked | Answered):
            self._fail(type(event).__name__, error, now)
            return None
        self.must_restart = True
        if now - self._failed_at >= CALM_S:
            self.pause_s = 0.0
        self.drop(type(event.message).__name__, error)
        self.ban(event.peer, now)
        return event.peer

    def ban(self, peer: Peer, now: float) -> None:
        """Ban a peer for what it has sent."""
        self._bans.ban(peer, now)
        _log.error("%s is banned: what it has sent raised an exception", peer_text(peer))

    def drop_commit(self, error: Exception, now: float) -> None:
        """Count changes that the storage has refused, of which the core does not know."""
        self._fail("storing", error, now)

    def drop_release(self, error: Exception, now: float) -> None:
        """Count a turn whose messages the core has failed to release."""
        self._fail("sending", error, now)

    def restarted(self) -> None:
        """Record that the core was restarted."""
        self.must_restart = False
        self.restarts += 1
        _log.error("the core was restarted from storage, because it may have been half changed")

    def _fail(self, what: str, error: Exception, now: float) -> None:
        self.must_restart = True
        is_again = now - self._failed_at < CALM_S
        self.pause_s = min(PAUSE_S_MAX, 2 * self.pause_s or PAUSE_S_FIRST) if is_again else 0.0
        self._failed_at = now
        self.drop(what, error)


def _place_of(error: Exception) -> str:
    """The module and the line in which an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "an unknown place"
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
