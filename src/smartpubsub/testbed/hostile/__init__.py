"""Peers that attack nodes: what one of them does, and real nodes under all attacks at once."""
