"""Pulsarcast: topics whose events are stored, linked, and verifiable by every node.

Topics and events are blocks of dag-cbor under the hash of their content, which link to each other
(`topics`, `events`, `log`). The members of a topic form a tree (`membership`), through which events
are disseminated (`dissemination`). Links show what a node has missed (`fetcher`), and some nodes of
the overlay store everything (`keepers`). `docs/pulsarcast.md` explains the protocol.
"""
