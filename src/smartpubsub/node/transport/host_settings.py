"""Timeouts and limits of a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """Times are in seconds; limits of streams are for streams that peers open."""

    connection_count_max: int = 300
    """The host neither opens nor accepts connections beyond this."""
    connections_per_prefix_max: int = 8
    """Connections that peers with the same IPv4 address, or /56 of IPv6, may open to the host."""
    loopback_is_exempt: bool = False
    """Whether peers on this machine may open more: for many nodes on one machine."""
    connection_count_high: int = 200
    """Beyond this the host closes the connections that were idle for longest, except those to the
    neighbours that its core names."""
    idle_s_min: float = 20.0
    """The host does not close a connection used within this time."""
    stream_count_max: int = 32
    """Streams of one connection, for all protocols."""
    stream_count_per_protocol_max: int = 8
    """Streams of one peer for one protocol."""

    find_s: float = 10.0
    """Time limit for finding the address of a peer."""
    dial_s: float = 10.0
    """Time limit for dialling one address."""
    dial_count_max: int = 16
    """Peers dialled at once."""
    address_tries_max: int = 4
    """Addresses tried for one peer."""
    backoff_s_first: float = 0.5
    backoff_s_max: float = 60.0
    """The first and the longest backoff after a failed dial."""
    silence_s: float = 30.0
    """A connection is closed if the peer acknowledges nothing for this time."""
    negotiate_s: float = 10.0
    """Time limit for negotiating the protocol of a stream."""
    identify_s: float = 3.0
    """How long messages of a peer wait for its identify message."""
    answer_s: float = 10.0
    """Time limit for an answer, of a peer or of this node."""
    write_s: float = 30.0
    """How long a peer may leave unread what the host writes."""
    drain_s: float = 2.0
    """How long a stopping host waits until queued messages are sent."""
    linger_s: float = 1.0
    """How long it then waits until its peers have read them."""
    close_s: float = 2.0

    queue_count_max: int = 10_000
    queue_bytes_max: int = 8 << 20
    """Bytes queued for one peer and protocol."""
    queued_bytes_max: int = 128 << 20
    """Bytes queued for all peers; beyond this, messages for peers with much in their queues are
    dropped."""
    messages_per_s_max: int = 5_000
    """Messages of one kind from one peer; faster messages wait, and so does the sender."""
    delay_s_max: float = 5.0
    """The host refuses a message that would wait for longer, and resets the stream."""
    question_count_max: int = 128
    """Questions to one peer that are not answered yet."""
    batch_bytes: int = 64 << 10
    """Messages are combined for one write up to this size."""
    event_count_max: int = 256
    event_bytes_max: int = 1 << 20
    """Events of one peer that are not handled yet; beyond this the host does not read from it."""
    turn_s_max: float = 0.01
    """Processor time of the events in one transaction, except for the last of them."""
    lone_turn_s_max: float = 0.04
    """The same limit while neither another peer nor the node itself has waiting events."""
    peer_share_max: float = 0.5
    """The share of the processor for one peer while others wait."""
    strangers_share_max: float = 0.25
    """The share of all peers together that are not in the routing table."""
    peer_burst_s: float = 0.05
    """Processor time that a peer may take at once."""
    frame_s: float = 30.0
    """Time limit for a message from its first byte to its last."""
    unfinished_bytes_max: int = 64 << 20
    """Bytes of incomplete messages, of all peers together."""
    gather_s_max: float = 0.1
    """How long a busy host waits for more events, to handle them together."""
    commit_count_max: int = 256
    """Events handled in one transaction."""
    late_s_max: float = 0.25
    """How long changes that may wait do so."""

    ban_s: float = 300.0
    """How long the host bans a peer whose message made the core fail."""
    peer_count_max: int = 4_096
    """Peers whose addresses, backoffs, bans and violations are remembered."""
    address_count_max: int = 8
    """Addresses of one peer."""
    address_bytes_max: int = 512
    identify_bytes_max: int = 64 << 10
