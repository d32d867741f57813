"""One core with nobody else there, and what can happen to it."""

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.settings import Settings
from smartpubsub.seam import (
    Answer,
    Answered,
    Ask,
    Asked,
    Effect,
    TimerFired,
)
from tests.kademlia.wired import contact, content_id, items, new_core

SETTINGS = Settings(k=2, alpha=2)
CID = content_id(b"value")
PING = Message(Kind.PING)


def core_that_knows(*numbers: int, settings: Settings = SETTINGS) -> Kademlia:
    core = new_core(0, settings)
    for number in numbers:
        core.table.heard_from(contact(number), 0)
    return core


def asked(core: Kademlia, number: int, message: object, now: int = 0) -> list[Effect]:
    event = Asked(contact(number).peer, message, 77, contact(number).addresses)
    return core.handle(event, now)


def answer(core: Kademlia, ask: Ask, message: object = PING, now: int = 0) -> list[Effect]:
    return core.handle(Answered(ask.peer, message, ask.number), now)


def silence(core: Kademlia, ask: Ask, now: int) -> list[Effect]:
    return core.handle(TimerFired(("kad", ask.number)), now)


def answers(effects: list[Effect]) -> list[object]:
    return [effect.message for effect in items(effects, Answer)]


def put(name: bytes, value: bytes) -> Message:
    return Message(Kind.PUT_VALUE, name, Record(name, value))
