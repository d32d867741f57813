"""Benchmarks: SmartPubSub beside other systems, as ratios from one run.

- `matching` engines: `comparison`, `adversarial` changes, databases (`sql_peers`).
- The simulator: `sim`, with `sim_peers`, `sim_large` overlays, and `sim_cost` per message.
- Live nodes: `node` and `load`, by `live` processes (`live_worker`, `live_costs`) beside `floors`,
  `brokers`, bare libp2p (`bare_echo`, `requests`) and `three_hops`; `sustained` rates; `hostile`
  peers.
- Programs beside a node (`node_process`): `client`, `gateway`.
- The `pipeline`: `little` data (a `second_stage` of a session), `skew`, `campaigns`, nodes as
  sources (`spark_nodes`), a join in SQL (`sql_match`).
- What they share: `report`, `machine`, `timing`, `workloads`, `processes`, `processor_time`.
"""
