"""Checks of the machine for running a node, each with a remedy."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from smartpubsub.cli.checks import FOR_DEVELOPMENT, FOR_NODES, Check, verdict
from smartpubsub.errors import SmartPubSubError

INSTALL = "pip install 'smartpubsub[node]'"
ANSWER_S_MAX = 10
OLDEST_NODE_JS = 20


def node_checks() -> Iterator[Check]:
    libp2p = check_libp2p()
    yield libp2p
    if libp2p.ok:  # Without libp2p, the settings cannot be read.
        yield check_connection()
        yield from settings_checks()
    yield check_javascript()


def check_libp2p(apply_patches: Callable[[], str] | None = None) -> Check:
    try:
        problem, version = None, (apply_patches or patched_version)()
    except ImportError as error:
        problem, version = f"{error.name or error} cannot be imported", ""
    except SmartPubSubError as error:
        problem, version = str(error), ""
    return verdict(
        "libp2p",
        ok=problem is None,
        needed=FOR_NODES,
        found=problem or version,
        remedy=INSTALL,
    )


def patched_version() -> str:
    """Check that libp2p has the version that the patches are for."""
    from smartpubsub.node.transport import patches

    patches.apply()
    return patches.VERSION


def check_connection(connect: Callable[[], None] | None = None) -> Check:
    """Check that two peers on this machine can connect and use a stream."""
    import trio

    try:
        (connect or connect_two_peers)()
        problem = None
    except* (OSError, SmartPubSubError, trio.TooSlowError) as errors:
        problem = str(first_of(errors)) or "it took too long"
    return verdict(
        "libp2p on loopback",
        ok=problem is None,
        needed=FOR_NODES,
        found=problem or "two peers can connect",
        remedy="allow programs to listen on and connect to 127.0.0.1",
    )


def first_of(errors: BaseException) -> BaseException:
    return first_of(errors.exceptions[0]) if isinstance(errors, BaseExceptionGroup) else errors


def connect_two_peers() -> None:
    import trio

    from smartpubsub.node.identity import Identity
    from smartpubsub.node.transport.connections import PING, Connections
    from smartpubsub.node.transport.host_settings import HostSettings

    here, there = (Connections(Identity.new(), HostSettings(), lambda *_: None) for _ in range(2))

    async def ping() -> None:
        with trio.fail_after(ANSWER_S_MAX):
            async with trio.open_nursery() as nursery:
                for peer in (here, there):
                    await nursery.start(peer.run, ["/ip4/127.0.0.1/tcp/0"])
                await here.dial(there.peer, there.addresses[0])
                stream = await here.open(there.peer, PING)
                await stream.write(bytes(32))
                await stream.read(32)
                nursery.cancel_scope.cancel()

    trio.run(ping)


def settings_checks() -> Iterator[Check]:
    """Check the data folder and the addresses of the settings."""
    from smartpubsub.node.configuration import ConfigError, load_config

    try:
        config = load_config()
    except ConfigError as error:
        remedy = "correct the setting"
        yield verdict(
            "node's settings", ok=False, needed=FOR_NODES, found=str(error), remedy=remedy
        )
        return
    yield check_data_folder(config.data)
    yield check_listening(config.listen)


def check_data_folder(folder: Path) -> Check:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    ok = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return verdict(
        "data folder",
        ok=ok,
        needed=FOR_NODES,
        found=str(folder) if ok else f"no files can be created in {there}",
        remedy="choose another with --data or SMARTPUBSUB_DATA",
    )


def check_listening(addresses: Sequence[str]) -> Check:
    problems = [problem for address in addresses if (problem := listening_problem(address))]
    return verdict(
        "node's port",
        ok=not problems,
        needed=FOR_NODES,
        found=problems[0] if problems else f"{', '.join(addresses)} can be listened on",
        remedy="end the program that uses it, perhaps a node, or choose another with --listen",
    )


def listening_problem(address: str) -> str | None:
    _, kind, host, _, port = address.split("/")
    family = socket.AF_INET if kind == "ip4" else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, int(port)))
            tried.listen()
        except OSError as error:
            return f"{address}: {error.strerror or error}"
    return None


def check_javascript(
    which: Callable[[str], str | None] = shutil.which, ask: Callable[[], str] | None = None
) -> Check:
    missing = [program for program in ("node", "npm") if which(program) is None]
    answer = "" if missing else (ask or node_js_answer)()
    version = re.match(r"v(\d+)\.", answer)
    return verdict(
        f"Node.js {OLDEST_NODE_JS}+",
        ok=version is not None and int(version[1]) >= OLDEST_NODE_JS,
        needed=f"{FOR_DEVELOPMENT}, to test with js-libp2p",
        found=f"no {missing[0]}" if missing else answer.strip() or "no answer",
        remedy=f"install Node.js {OLDEST_NODE_JS} or newer with npm",
    )


def node_js_answer() -> str:
    try:
        return subprocess.run(
            ["node", "--version"], capture_output=True, text=True, timeout=ANSWER_S_MAX
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
