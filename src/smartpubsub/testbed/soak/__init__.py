"""Whole nodes in real processes, for hours, under faults of all kinds."""
