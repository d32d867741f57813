"""Nodes that lie: adversaries as values that an experiment combines."""
