"""The simulator: thousands of nodes in one process, with the same run for the same seed."""
