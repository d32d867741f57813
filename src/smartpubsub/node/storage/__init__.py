"""The data folder of a node, and its crash-safe storage."""
