"""The constants of Kademlia, and limits on everything that others send."""

from dataclasses import dataclass

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times are in microseconds."""

    k: int = 20
    """How many peers a bucket holds, and how many copies a value has."""
    alpha: int = 3
    """How many peers a lookup asks at once."""
    paths: int = 1
    """How many disjoint paths a lookup follows (S/Kademlia); each asks alpha peers at once."""

    slow_us: int = SECOND
    """After this long without an answer a peer is asked again, and a lookup asks somebody else."""
    again_us: int = 3 * SECOND
    """How long until it is asked once more."""
    timeout_us: int = 10 * SECOND
    """After this long without an answer a peer has failed."""
    failures_max: int = 2
    """A peer that fails so often in a row is put out of the table."""

    check_us: int = 10 * MINUTE
    """A peer that was not heard from for so long is asked whether it is there."""
    refresh_us: int = 10 * MINUTE
    """How often each part of the table is looked up again."""

    republish_us: int = HOUR
    """How often whoever holds a value makes sure that the closest hold it."""
    expire_us: int = 48 * HOUR
    """How long a value or a provider is kept after it was last put."""

    name_bytes_max: int = 1024
    value_bytes_max: int = 64 * 1024
    value_count_max: int = 10_000
    values_bytes_max: int = 256 << 20
    """Of all values together, with their names."""
    provider_count_max: int = 10_000
    providers_per_name_max: int = 100
    contact_count_max: int = 100
    """How many contacts a message may have of each sort, closer peers and providers."""
    peer_bytes_max: int = 128
    address_count_max: int = 16
    """How many addresses a contact may have."""
    address_bytes_max: int = 512
    message_bytes_max: int = 4 << 20
    """libp2p's own limit."""
