"""The protocols: what publishes, subscribes and delivers on the overlay.

- The node that composes all cores: `node`. Its interface to a protocol: `pubsub`, `capabilities`.
- What a protocol declares, and where it is found by its name: `spec`, `registry`, `codecs`.
- Events: `publication`, `event_messages`, `seen`; signed statements: `evidence`.
- Content-addressed blocks: `blocks`, `dagcbor`, `car`, `event_blocks`.
- The goodbye of a node that leaves: `departure`. Values that are computed once: `lazy`.

The packages are the protocols (`scoutsubs`, `fastdelivery`, `pulsarcast`, `baselines`) and what
they share (`runtime`). Each has a map like this one.
"""
