"""The simulated world: time, network, faults, and the nodes in it."""
