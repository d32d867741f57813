"""FastDelivery: a publisher's own network, in which events take two hops at most.

A publisher owns groups. A member of a group is served by the publisher itself or by a helper, which
is a member of the same group and region. `docs/fastdelivery.md` describes the protocol; `protocol`
is the entry point.
"""
