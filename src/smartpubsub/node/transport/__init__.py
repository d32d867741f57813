"""Runs a core on libp2p: connections, streams, frames, timers and rate limits.

`host` hands events to the core and carries out its effects.

- Towards the core: the `inbox` of events, the order of events and timers (`turns`, `timers`,
  `boot_clock`), how the host recovers from an exception (`containment`), the thread for
  transactions (`worker_thread`).
- Sending: a queue and a stream for each peer and protocol (`lane`, `lanes`), `dialer`, `backoff`,
  `hearsay`.
- Receiving: `inbound` streams, `rates` of messages, `shares` of the processor (`processor_clock`),
  `bans`.
- Connections: `connections`, their `usage`, `addresses`, `contacts`, `identify`, `mdns`.
- libp2p: the `swarm`, its `streams` and `frames`, multistream (`select`), networks with a key
  (`private_network`), what a node patches (`patches`, `plain_frames`) and leaves out
  (`lean_libp2p`).
- `host_settings`, `counts`, and a clock for overloaded machines (`patience`).
"""

from smartpubsub.node.transport import lean_libp2p

lean_libp2p.install()
