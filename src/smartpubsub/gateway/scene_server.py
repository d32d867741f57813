"""Serves the page of a whole network, from a thread beside the run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Annotated

import msgspec
import trio
from starlette.applications import Starlette
from starlette.responses import Response

from smartpubsub.gateway.access import Access
from smartpubsub.gateway.app import application_of
from smartpubsub.gateway.operations import Call, Operation, Scope, json_response
from smartpubsub.gateway.page_files import PageOperations
from smartpubsub.gateway.problems import ProblemError
from smartpubsub.gateway.scene import Scene
from smartpubsub.gateway.server import listening, serve_forever
from smartpubsub.gateway.tokens import TokenFile
from smartpubsub.node.config_values import Endpoint


class AfterQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The number after which moves are wanted."""

    after: Annotated[int, msgspec.Meta(ge=0)] = 0


class SceneOperations:
    """Operations on a whole network."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        return [
            Operation(
                "show_network",
                "GET",
                "/v1/network",
                "The network as the page shows it",
                Scope.READ,
                self._show,
                query=AfterQuery,
                result=dict,
            ),
            Operation(
                "kill_node",
                "POST",
                "/v1/network/{node}/kill",
                "Kill the process of a node",
                Scope.ADMIN,
                self._kill,
                status=202,
                problems=(404, 409),
            ),
        ]

    async def _show(self, call: Call) -> Response:
        return json_response(self._scene.document(call.query.after))

    async def _kill(self, call: Call) -> Response:
        number = call.path["node"]
        if not number.isascii() or not number.isdigit() or int(number) >= self._scene.node_count:
            raise ProblemError(404, f"there is no node {number[:20]}")
        if not self._scene.can_kill:
            raise ProblemError(409, "the nodes of this network do not have processes of their own")
        self._scene.kills.put(int(number))
        return Response(status_code=202)


@contextmanager
def scene_page(scene: Scene, at: Endpoint, folder: Path) -> Iterator[str]:
    """Serve the page of a network until the block is left; yield its URL."""
    operations = [*SceneOperations(scene).operations, *PageOperations("network.html").operations]
    access = Access(at, TokenFile(folder))
    app = application_of(operations, access)
    ended: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []
    is_ready = threading.Event()
    with listening(at) as listener:
        port = listener.getsockname()[1]

        def run() -> None:
            trio.run(_serve, app, listener.dup(), ended, is_ready)

        thread = threading.Thread(target=run, name="smartpubsub page", daemon=True)
        thread.start()
        is_ready.wait()
        try:
            yield f"http://{at.host}:{port}/"
        finally:
            token, scope = ended[0]
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)
            thread.join(5)


async def _serve(
    app: Starlette,
    listener: socket,
    ended: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]],
    is_ready: threading.Event,
) -> None:
    with trio.CancelScope() as scope:
        ended.append((trio.lowlevel.current_trio_token(), scope))
        is_ready.set()
        await serve_forever(app, listener)
