"""Workloads: who subscribes to what, who publishes what, and when."""
