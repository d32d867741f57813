"""Connections of a client."""

from __future__ import annotations

import pytest

from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import Conversation, LineTransport
from smartpubsub.node.errors import NoNodeError


class _TakenByAnother(list[Conversation]):
    """A list whose last item another thread takes before this one does."""

    def pop(self, *_: object) -> Conversation:
        self.clear()
        raise IndexError


def test_a_thread_connects_anew_if_another_one_takes_the_last_idle_connection() -> None:
    transport = LineTransport(BlockingNetwork("/nonexistent"))
    stream, name = None, "a node"
    transport._idle = _TakenByAnother([Conversation(stream, name, None)])  # type: ignore[arg-type]
    with pytest.raises(NoNodeError):
        run(transport.ask("info", {}))
