"""The process that starts and ends the workers of a testbed.

It has imported everything that a worker needs, so a new worker is a fork that shares this memory.
When the coordinator ends, for any reason, it kills all workers, removes the data of their nodes,
and ends. It has its own session, so Ctrl-C on a terminal reaches only the coordinator, which then
ends everything in order.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from smartpubsub.testbed.channel import ClosedError, receive, send_now
from smartpubsub.testbed.messages import Kill, Launch, Setup
from smartpubsub.testbed.soak.disks import remove
from smartpubsub.testbed.worker import work


@dataclass(slots=True)
class _Launcher:
    end: socket.socket
    workers: dict[int, None]

    def serve(self) -> None:
        """Serve until the coordinator ends."""
        while True:
            mark, descriptors, _, _ = socket.recv_fds(self.end, 1, 1)
            if not mark:
                return
            match receive(self.end):
                case Launch(setup):
                    send_now(self.end, self._launch(setup, socket.socket(fileno=descriptors[0])))
                case Kill(process):
                    self._kill(process)
                    send_now(self.end, process)

    def _launch(self, setup: Setup, channel: socket.socket) -> int:
        process = os.fork()
        if process:
            channel.close()
            self.workers[process] = None
            return process
        self.end.close()
        try:
            work(channel, setup)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            os._exit(1)

    def _kill(self, process: int) -> None:
        """Kill and reap a worker; only this process reaps it, so its id cannot have been reused."""
        if process in self.workers:
            del self.workers[process]
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)

    def kill_all(self) -> None:
        """Kill all remaining workers."""
        for process in list(self.workers):
            self._kill(process)


def main(descriptor: int, folder: Path) -> None:
    """Serve the coordinator at the other end of a socket, and clean up after it."""
    _allow_many_connections()
    gc.collect()
    gc.freeze()  # Shared memory must not be written, or each worker would get its own copy.
    launcher = _Launcher(socket.socket(fileno=descriptor), {})
    try:
        with suppress(ClosedError):
            launcher.serve()
    finally:
        launcher.kill_all()
        remove(folder)


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
