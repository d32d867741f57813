"""Limits on received messages: a message that exceeds one is refused as a whole."""

from __future__ import annotations

from smartpubsub.kademlia.messages import Message
from smartpubsub.kademlia.settings import Settings


def is_acceptable(message: Message, settings: Settings) -> bool:
    """Whether a message is within all limits."""
    _, key, record, closer, providers = message
    return (
        len(key) <= settings.name_bytes_max
        and len(closer) <= settings.contact_count_max
        and len(providers) <= settings.contact_count_max
        and (record is None or len(record.key) <= settings.name_bytes_max)
        and (record is None or len(record.value) <= settings.value_bytes_max)
    )
