"""Pulsarcast: topics whose events are kept, linked, and verified by anyone.

Everything is a block of dag-cbor under the hash of its content: descriptors of topics and events,
which link to each other (`blocks`, `topics`, `events`, `log`). A topic's members stand in a tree
(`joining`), along which events go (`spreading`); what somebody has missed shows in the links and is
fetched (`catching_up`); some nodes of the overlay keep everything (`keeping`).
`docs/pulsarcast.md` tells how it works.
"""
