"""ScoutSubs: content-based routing over Kademlia rendezvous, without brokers.

`protocol` makes the components, routes inputs to them and news between them. docs/scoutsubs.md
explains the protocol and has a table of the components. Where to look:

- Publishing: own events until they are acknowledged (`publisher`), and which nodes may acknowledge
  them (`root_lookup`).
- Up to the rendezvous: `forwarding`, `new_trees`.
- At the rendezvous: `admission` in the publisher's order (`duplicates`, `arrival_order`), `custody`
  until all have confirmed, and `shards` of a hot attribute.
- Down the tree: `dissemination` of events in flight (`flight`), `offers` of an event that another
  tree brings (`recent_events`), `local_delivery`.
- The tree: this node's place (`membership`, `proximity`), after a restart too (`recovery`).
- Filters: own `subscriptions`, `filters` on their way up (`filter_table`, `announcement_turns`),
  `overlaps` with other trees, the `epochs` and names (`shard_names`) of shards.
- Copies elsewhere: `replication` of this node's tables, at nodes of its `replica_choice`;
  `replicas` of other nodes' tables and events. What survives a crash: `persistence`.
- The past: `history`, `replay`.
- Nodes that lie: `audit`, `audit_keeper`, `keepers`, `keeper_copies`, `placement`, `convictions`,
  `attestation`.
- Messages: `messages`, `fragments`, `ranges`; which peers may send them (`senders`); `timeouts`.
- Towards the outside: `spec`, `settings`, `inspection`.
"""
