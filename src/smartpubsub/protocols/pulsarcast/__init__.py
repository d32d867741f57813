"""Pulsarcast: topics whose events are stored, linked, and verifiable by every node.

`protocol` makes the components (`component` is their base), routes inputs to them and news between
them. docs/pulsarcast.md explains the protocol and has a table of the components. Where to look:

- Descriptors, which are blocks under the hash of their content: `topics`, `events`, `fields`. Which
  peers may publish: `permissions`.
- What a node has: `replicas` of topics, each with a `log` of events that link to each other;
  `versions` of topics, and the `descriptor_search` for those that it lacks. What survives a crash:
  `store`, `persistence`.
- The tree of a topic: `membership`, `liveness`.
- Publishing: `publisher`, which has `keepers` store each event; `dissemination` through the tree;
  delivery to `subscriptions`.
- Events that a node lacks: `fetcher`, by `pages`; `audits` notice events that neighbours hide;
  `history` reads the past; `importer` takes blocks from files.
- Messages: `messages`; which peers may send them (`senders`).
- Towards the outside: `spec`, `settings`, `results`.
"""
