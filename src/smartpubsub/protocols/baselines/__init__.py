"""Protocols to compare with, on libp2p's pubsub messages.

- What both share: `one_topic`, `peers`, `messages`, `spec`.
- Floodsub: `floodsub`.
- GossipSub: `gossipsub` ties together the mesh (`gossip_mesh`), scores of peers (`gossip_scores`),
  recent events (`gossip_cache`) and requests for offered ones (`gossip_iwant`); `gossip_settings`.
"""
