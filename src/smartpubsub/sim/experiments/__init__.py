"""Experiments in a simulated world: a protocol, a workload, faults, and their options."""
