"""Benchmarks: what SmartPubSub does next to its peers, as ratios from one run."""
