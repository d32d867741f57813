"""Protocols to compare with: Floodsub and GossipSub."""
