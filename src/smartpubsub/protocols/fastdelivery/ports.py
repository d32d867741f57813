"""The ports that the components of FastDelivery share."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.protocols.fastdelivery.messages import Answer, Packet, Question
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.signatures import GroupSignatures
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.requests import Requests

FastOutbox: TypeAlias = Outbox[Packet]
FastRequests: TypeAlias = Requests[Question, Answer]


class FastPorts(NamedTuple):
    """What every component may use: effects, requests and constants, but no other component."""

    outbox: FastOutbox
    requests: FastRequests
    signatures: GroupSignatures
    settings: FastSettings
    own: Contact
    ledger: Ledger


def ignore_answer(_: Answer) -> None:
    """Do nothing about an answer."""
