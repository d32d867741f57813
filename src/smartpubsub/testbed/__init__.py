"""Real nodes in real processes, for the experiments that the simulator runs as well."""
