"""Mechanisms that all protocols share.

- Effects, timers and batches: `outbox`, `deadlines`, `randomness`.
- Messages that are declared once: `messages`. Which peers may send them: `rules`.
- Requests with retransmission, and their timeouts: `requests`, `rtt`.
- Which peers are up, and which are closest to a name: `failure_detector`, `replication`, `lookups`.
- Order per publisher: `reorder`. Calls before the node has joined: `deferred`.
- Limits: `bounded`, `pace`. Own subscriptions of simple protocols: `local`.
- The invariants of all components: `invariants`.
"""
