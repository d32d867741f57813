"""ScoutSubs: content-based routing over Kademlia rendezvous, without brokers.

The path of an event: the publisher sends a copy to the rendezvous of each attribute (`publisher`),
which admits it, has it recorded and acknowledges it (`rendezvous`) and sends it down a tree of
filters (`dissemination`). Subscriptions build that tree: nodes announce filters to their parents
(`filters`), which are the next hops towards the rendezvous (`membership`). Tables are replicated
(`replication`), and the failure detector watches the peers that matter. `protocol` ties all
components together; docs/scoutsubs.md has their map.
"""
