"""The constants of Kademlia, and the limits on received messages."""

from dataclasses import dataclass

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times are in microseconds."""

    k: int = 20
    """The size of a bucket, and the number of replicas of a value."""
    alpha: int = 3
    """How many peers a lookup queries at once."""
    paths: int = 1
    """How many disjoint paths a lookup follows (S/Kademlia); each queries alpha peers at once."""

    id_work_bits: int = 0
    """The proof of work that the ids of peers need to be in the table and in results of lookups."""

    peers_per_prefix_max: int = 0
    """How many peers with the same address prefix a bucket and a result of a lookup have; 0 for any
    number."""

    slow_us: int = SECOND
    """After this long without an answer, a request is repeated, and a lookup queries another
    peer."""
    again_us: int = 3 * SECOND
    """The time until the request is repeated once more."""
    timeout_us: int = 10 * SECOND
    """After this long without an answer, a peer has failed."""
    failures_max: int = 2
    """A peer that fails this often in a row is evicted from the table."""
    verify_us: int = 3 * SECOND
    """A peer that another core suspects is evicted if it answers no ping for this long."""
    verify_again_us: int = SECOND // 2
    """The interval of these pings."""
    doubt_us: int = 10 * MINUTE
    """For this long after a peer was gone, lookups give it little time, until it sends anything."""

    check_us: int = 10 * MINUTE
    """A peer that was not heard from for this long is pinged."""
    refresh_us: int = 10 * MINUTE
    """How often each part of the table is looked up again."""

    republish_us: int = HOUR
    """How often a node that holds a value puts it at the closest nodes again."""
    republish_count_max: int = 16
    """How many values it puts at a time; a put sends the value to k nodes."""
    republish_pause_us: int = 5 * SECOND
    """How long it waits between two times; so `value_count_max` values take less than an hour."""
    expire_us: int = 48 * HOUR
    """The lifetime of a value or a provider after its last put."""

    name_bytes_max: int = 1024 + 8
    """The longest name of an attribute, and what protocols add to it."""
    value_bytes_max: int = 64 * 1024
    value_count_max: int = 10_000
    values_bytes_max: int = 256 << 20
    """Of all values together, with their names."""
    provider_count_max: int = 10_000
    providers_per_name_max: int = 100
    providers_bytes_max: int = 32 << 20
    """Of all providers together, with the names that they provide."""
    contact_count_max: int = 100
    """The maximum number of closer peers, and of providers, in a message."""
    peer_bytes_max: int = 128
    address_count_max: int = 16
    """The maximum number of addresses of a contact."""
    address_bytes_max: int = 512
    message_bytes_max: int = 4 << 20
    """libp2p's own limit."""
