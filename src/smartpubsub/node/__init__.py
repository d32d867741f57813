"""A node on real connections: what runs the cores with libp2p."""
