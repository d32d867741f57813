"""The HTTP gateway of a node: CloudEvents over HTTP, Server-Sent Events and one WebSocket.

`server` runs it beside a node, and a stopped gateway never stops its node; `connections` bounds
what clients cost. `app` lists the operations.

- Operations: `events`, `subscriptions`, `topics`, `groups`, `network`, `control`. Each is declared
  once (`operations`, `values`), and `documents` are written from that.
- Requests: access control (`access`, `tokens`), texts of expected values (`expected`), errors
  (`problems`), events on the wire (`cloudevents`).
- Streams: `streams` for many listeners, of `sources`, as `sse` or on a `websocket`. `pieces` writes
  long answers.
- The page: `page_files`. A whole network on it: `scene`, `scene_server`.
"""
