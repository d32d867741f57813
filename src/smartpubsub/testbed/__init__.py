"""Real nodes in real processes, for the experiments of the simulator.

- The coordinator: `run` is one experiment, `cluster` starts and commands the nodes (`joiners`,
  `disasters`, `identities`), `ledger` feeds their notes to the observer, `result`.
- Processes: the `launcher` starts each `worker`, and `processes` is the coordinator's side; they
  exchange `messages` on a `channel`.
- In a worker: a `placed` node on a `link` with conditions, its core `traced`, its notes in a
  `notebook`; `timeline` merges the notes of all workers.
- `soak` runs nodes for hours under faults, `hostile` under attack.
"""
