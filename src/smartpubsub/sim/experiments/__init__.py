"""Experiments in a simulated world: a protocol, a workload, faults, and their options.

- One run: `experiment`, with the actions of a workload as `calls`, after a `preparation` of groups
  and `topics`, at a `pace`; `running` is shared with runs on real nodes. `options` come from a
  command line or a plan.
- Many runs: `fuzz` in `random_worlds`, whose `invariants` it checks; `comparison` of protocols.
- To look into a run: `replay`, `route`, `inside`. Kademlia alone: `lookups`.
"""
