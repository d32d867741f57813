"""Hostile peers: their attacks, and real nodes under all attacks at once."""
