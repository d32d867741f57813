"""Peers and their addresses as text."""

from __future__ import annotations

import base58
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from smartpubsub.kademlia.keys import Contact
from smartpubsub.node.errors import NodeError
from smartpubsub.node.identity import peer_text, public_key_in
from smartpubsub.node.transport.addresses import transport_address
from smartpubsub.seam import Peer


def contact_at(address: str) -> Contact:
    """Read an address that ends in a peer id."""
    parsed = Multiaddr(address)
    peer = base58.b58decode(parsed.value_for_protocol("p2p"))
    transport = parsed.decapsulate(f"/p2p/{parsed.value_for_protocol('p2p')}")
    return Contact.of(peer, (transport.to_bytes(),))


def contact_of(text: str) -> Contact:
    """Read an address that ends in a peer id, or a peer id alone."""
    try:
        is_address = text.startswith("/")
        contact = contact_at(text) if is_address else Contact.of(base58.b58decode(text))
        if public_key_in(contact.peer) is None:
            raise ValueError("the peer id contains no Ed25519 key to verify its signatures with")
    except (ValueError, MultiaddrError) as error:
        raise NodeError(
            f"{text!r} is neither a peer id nor an address that ends in one; take what"
            " 'smartpubsub node info' says"
        ) from error
    return contact


def text_of(peer: Peer, address: bytes | None = None) -> str:
    """A peer id, after the address if there is one that can be dialled.

    >>> text_of(b"\\x00\\x24\\x08\\x01\\x12\\x20" + bytes(32))
    '12D3KooW9pNAk8aiBuGVQtWRdbkLmo5qVL3e2h5UxbN2Nz9ttwiw'
    """
    id, plain = peer_text(peer), transport_address(address or b"")
    return id if plain is None else f"{Multiaddr(plain)}/p2p/{id}"
