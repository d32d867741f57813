"""Runs a core on libp2p: connections, streams, frames, timers and rate limits."""

from smartpubsub.node.transport import lean_libp2p

lean_libp2p.install()
