"""A live node: runs the cores on libp2p."""
