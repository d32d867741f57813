"""A connection to a gateway that cannot be reached for a time."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

import pytest

from smartpubsub.client import web_socket
from smartpubsub.client.blocking_socket import BlockingStream, run
from smartpubsub.client.web_socket import Place, WebStream
from smartpubsub.node.errors import LostNodeError


class _Unreachable:
    """A network without a gateway."""

    async def dial(self, _place: Place) -> BlockingStream:
        raise ConnectionRefusedError

    async def pause(self, s: float) -> None:
        time.sleep(s)

    def shielded(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_reader_with_a_time_limit_may_try_again_until_the_node_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = WebStream(Place.of("http://127.0.0.1:1", None), _Unreachable())
    for _ in range(2):
        with pytest.raises(TimeoutError):
            run(stream.receive(0.01))
    monkeypatch.setattr(web_socket, "RESUME_S_MAX", 0.0)
    with pytest.raises(LostNodeError, match="cannot be reached any more"):
        run(stream.receive(10.0))
