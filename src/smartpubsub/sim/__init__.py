"""The simulator: thousands of nodes in one process, the same to the byte for the same seed."""
