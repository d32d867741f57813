"""FastDelivery: a publisher's own network, in which events take two hops at most.

A publisher owns groups. Whoever joins one is served by the publisher itself or by one helper, a
member of the same group and region that has agreed to pass events on. `docs/fastdelivery.md` tells
the whole story; `core` is where it begins.
"""
