"""Runs a core on libp2p: connections, streams, frames, timers and rate limits."""
