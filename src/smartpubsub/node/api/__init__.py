"""The API of a node: its subscriptions, publications, topics and groups.

`interface` declares what an embedded `node` and the client of a running node have in common.

- Subscriptions: `subscription` is what an application reads, `arrivals` the queue behind it, and
  `subscribing` begins and ends them. `handlers` are functions that are called with events.
- Publishing: `publishing` waits for acknowledgements (`calls`), `signed_together` signs waiting
  events together, `event_records` remembers own events and their keys, `receipts` prove that
  replicas hold them.
- Events: `events`, their `payloads`, `sealed` ones, those of a `circle`. The past: `past`,
  `past_events`.
- Topics: `topic` for applications, `topics` behind it; `topic_subscription`, `topic_subscribing`,
  `topic_events`, `topic_rules`, `topic_ranges`.
- Groups: `group` for applications, `groups` behind it.
- Programs that read or publish much: `batches`, `journals`.
- `listing` describes what a node has; `choices` are parameters of a few words; `lone_errors`
  unwraps errors of nurseries.
"""
