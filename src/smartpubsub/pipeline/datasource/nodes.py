"""Requests of Spark's processes to a node, which may be down for a while."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import LineTransport
from smartpubsub.client.transport import Transport
from smartpubsub.node.errors import LostNodeError, NoNodeError
from smartpubsub.pipeline.datasource.options import NodeOptions, OptionError

RETURN_S_MAX = 60.0
"""How long a process waits for a node to come back."""
RETRY_S = 0.5

T = TypeVar("T")
_log = logging.getLogger(__name__)


class NodeLink:
    """A connection to a node, for one process."""

    def __init__(self, options: NodeOptions, *, was_there: bool = False) -> None:
        self._transport = _transport(options)
        self._was_there = was_there
        """Whether the node has answered before, so that waiting for it makes sense."""

    def ask(self, do: str, **fields: object) -> Any:
        """Send a request, and repeat it if the node was restarted meanwhile."""
        return self.patiently(lambda: run(self._transport.ask(do, fields)))

    def page(self, do: str, **fields: object) -> tuple[dict[str, Any], bytes]:
        """Request a page of blocks; return the answer and the page."""
        answer = self.ask(do, raw=True, **fields)
        page = answer.pop("page")
        return answer, page if isinstance(page, bytes) else base64.b64decode(page)

    def patiently(self, request: Callable[[], T]) -> T:
        """Make a request until the node answers, for a limited time."""
        until = time.monotonic() + RETURN_S_MAX
        has_warned = False
        while True:
            try:
                answer = request()
                self._was_there = True
                return answer
            except (NoNodeError, LostNodeError) as error:
                if not self._was_there or time.monotonic() > until:
                    raise
                if not has_warned:
                    _log.warning("%s; trying for up to %.0f s", error, RETURN_S_MAX)
                has_warned = True
                time.sleep(RETRY_S)

    def close(self) -> None:
        """Close the connection."""
        run(self._transport.close())


def _transport(options: NodeOptions) -> Transport:
    if options.node.startswith(("http://", "https://")):
        # Nodes on this machine need no WebSocket.
        from smartpubsub.client.blocking_web import BlockingWeb
        from smartpubsub.client.web_socket import Place

        return LineTransport(BlockingWeb(Place.of(options.node, options.token)))
    folder = Path(options.node).expanduser().absolute()
    if not folder.is_dir():
        raise OptionError(
            "node",
            f"{folder} does not exist; name the data folder of a running node, or the URL of its"
            " gateway, as http://127.0.0.1:8080",
        )
    return LineTransport(BlockingNetwork(str(folder)))
