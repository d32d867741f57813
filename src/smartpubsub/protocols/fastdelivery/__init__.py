"""FastDelivery: a publisher's own network, in which events take two hops at most.

A publisher owns groups. A member of a group is served by the publisher itself or by a helper, which
is a member of the same group and region. `protocol` makes the components (`component` is their
base) and routes inputs to them. docs/fastdelivery.md explains the protocol and has a table of the
components. Where to look:

- The owner: `owner` of a `group`; the `book` decides which node serves which member, `regions` are
  where members are, `replicas` keep events for silent members, `persistence`.
- The member: `subscriber` joins groups, `delivery` puts events in order, `review` asks the owner
  for events that a helper has not brought.
- The helper: `helper`.
- The directory of groups: `directory` on the nodes that keep it (`keepers`), `directory_client` on
  those that ask them, `shapes` for which groups a search finds.
- Messages: `messages`, `signatures`; which peers may send them (`senders`); `timeouts`.
- Towards the outside: `spec`, `settings`, `results`.
"""
