"""Spark looks for modules with this prefix, and registers their `DefaultSource`."""

from smartpubsub.pipeline.datasource.source import SmartPubSubSource as DefaultSource

__all__ = ["DefaultSource"]
