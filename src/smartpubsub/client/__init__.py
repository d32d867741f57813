"""A client of a running node, asynchronous or blocking.

- The API: `connect`, `client`, `blocking`, with `topics`, `groups` and `subscriptions`. A node in a
  thread of the process: `embedded`.
- Below it: a `transport` carries `lines` of JSON, `numbered` so that they survive a connection;
  `documents` converts them.
- Connections: `async_socket`, `blocking_socket`; through a gateway `web_socket`, `async_web`,
  `blocking_web`.
- `commands` is the client of the command line.

The modules `lines` and `blocking_socket` import little, because short commands are as slow
as their imports.
"""
