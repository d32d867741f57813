"""The base of all components: what each of them may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.protocols.fastdelivery.messages import Answer, Packet, Question
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.signatures import GroupSignatures
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.requests import Requests

FastOutbox: TypeAlias = Outbox[Packet]
FastRequests: TypeAlias = Requests[Question, Answer]


@dataclass(eq=False)
class FastComponent:
    """Part of one node's FastDelivery; a subclass adds its ports and the state that it owns."""

    _outbox: FastOutbox
    _requests: FastRequests
    _signatures: GroupSignatures
    _settings: FastSettings
    _own: Contact
    _ledger: Ledger
