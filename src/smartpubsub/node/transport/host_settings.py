"""How patient a host is, and limits on everything that others make it keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """Times are in seconds. Counts of streams are of those that others have opened."""

    connection_count_max: int = 300
    """Beyond this no connection is made or taken."""
    connection_count_high: int = 200
    """Beyond this the connections that were idle for longest are closed."""
    idle_s_min: float = 20.0
    """A connection on which something has come or gone within this time is not closed for that."""
    stream_count_max: int = 32
    """On one connection, whatever they are for."""
    stream_count_per_protocol_max: int = 8
    """Of one peer."""

    find_s: float = 10.0
    """How long it may take to find out where a peer is."""
    dial_s: float = 10.0
    """How long one address is tried."""
    dial_count_max: int = 16
    """How many peers are dialled at once."""
    address_tries_max: int = 4
    """How many of a peer's addresses are tried."""
    backoff_s_first: float = 0.5
    backoff_s_max: float = 60.0
    """How long a peer that could not be reached is left alone: at first, and at most."""
    silence_s: float = 30.0
    """A connection whose other end acknowledges nothing for so long is given up."""
    negotiate_s: float = 10.0
    """How long it may take to agree on what a stream is for."""
    identify_s: float = 3.0
    """How long what a peer sends waits until the peer has said where it can be reached."""
    answer_s: float = 10.0
    """How long an answer may take, others' or ours."""
    write_s: float = 30.0
    """How long a peer may take nothing of what is written to it."""
    drain_s: float = 2.0
    """How long what is still to be sent is waited for at the end."""
    close_s: float = 2.0

    queue_count_max: int = 10_000
    queue_bytes_max: int = 8 << 20
    """What may wait for one peer on one protocol."""
    messages_per_s_max: int = 5_000
    """Of one kind from one peer; what comes faster waits, and so does its sender."""
    delay_s_max: float = 5.0
    """A message that would have to wait for longer is refused, and costs its sender the stream."""
    question_count_max: int = 128
    """Questions to one peer that are not answered yet."""
    batch_bytes: int = 64 << 10
    """Messages are put together for one write until they are so long."""
    event_count_max: int = 1_000
    """What has come and is not handled yet; beyond this nothing is read."""
    gather_s_max: float = 0.1
    """How long a host on a busy loop waits for more to come before it handles what has."""
    commit_count_max: int = 256
    """How many events are handled before what they store is kept."""

    peer_count_max: int = 4_096
    """How many peers' addresses, backoffs and misdeeds are remembered."""
    address_count_max: int = 8
    """Of one peer."""
    address_bytes_max: int = 512
    identify_bytes_max: int = 64 << 10
