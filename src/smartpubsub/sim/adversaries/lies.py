"""Lies: what adversaries withhold from messages, and the answers that they invent.

A lie takes a message that an honest node would send. It returns the message without what the
adversary withholds, the withheld rest, and the answers that the receiver would have sent. The
adversary's own core gets these answers, so it goes on as if the message had been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from smartpubsub.protocols.baselines.messages import Rpc
from smartpubsub.protocols.blocks import cid_of
from smartpubsub.protocols.fastdelivery import messages as fast
from smartpubsub.protocols.fastdelivery.messages import Packet
from smartpubsub.protocols.publication import EventId, Signing
from smartpubsub.protocols.pulsarcast import messages as pulsar
from smartpubsub.protocols.pulsarcast.messages import Parcel
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.protocols.scoutsubs.attestation import held_bytes, kept_bytes
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Bundle
from smartpubsub.seam import Peer

Withheld = Callable[[bytes], bool]
"""Whether an adversary withholds an event, by bytes that name it."""


class Lie(NamedTuple):
    """The result of a lie about a message."""

    sent: Any
    """The message to send; None for nothing."""
    withheld: Any = None
    """The withheld part; None for nothing."""
    invented: tuple[Any, ...] = ()
    """Answers of the receiver for the adversary's own core."""


def name_of(id: EventId) -> bytes:
    """Bytes that name an event."""
    return id.publisher + b"%d/%d" % (id.incarnation, id.number)


def without_events(message: object, withheld: Withheld) -> Lie:
    """A message without the events that it brings or has kept."""
    match message:
        case Bundle(parts):
            return _of_parts(Bundle, [_scout(part, withheld) for part in parts])
        case Packet(number, part):
            return _packet(number, part, withheld)
        case Parcel(parts):
            return _of_parts(Parcel, [_pulsar(part, withheld) for part in parts])
        case Rpc():
            return _rpc(message, withheld)
    return Lie(message)


def without_confirmations(message: object) -> Lie:
    """A message without the confirmations of a subscriber."""
    match message:
        case Bundle(parts):
            sent = tuple(part for part in parts if not isinstance(part, scout.Confirm))
            return Lie(Bundle(sent) if sent else None)
        case Packet(_, fast.Got()):
            return Lie(None)
    return Lie(message)


def without_groups(message: object, withheld: Withheld) -> Lie:
    """A message without events, and without the groups and the searches of a directory."""
    match message:
        case Packet(_, fast.Listed() as part):
            return Lie(message._replace(part=part._replace(notices=(), is_more=False)))
        case Packet(_, fast.Watchers() as part):
            return Lie(message._replace(part=part._replace(watched=(), is_more=False)))
        case Packet(_, fast.CopyDirectory() as part):
            return Lie(message._replace(part=part._replace(posted=(), watched=())))
        case Packet(number, fast.Invite()):
            return Lie(None, message, (Packet(number, fast.RequestDone()),))
    return without_events(message, withheld)


def _of_parts(envelope: type, lies: list[Lie]) -> Lie:
    sent = tuple(lie.sent for lie in lies if lie.sent is not None)
    withheld = tuple(lie.withheld for lie in lies if lie.withheld is not None)
    invented = tuple(part for lie in lies for part in lie.invented)
    return Lie(
        envelope(sent) if sent else None,
        envelope(withheld) if withheld else None,
        (envelope(invented),) if invented else (),
    )


def _scout(part: Any, withheld: Withheld) -> Lie:
    match part:
        case scout.Notify(event, attribute) if withheld(name_of(event.id)):
            return Lie(None, part, (scout.Confirm(event.id, attribute, part.on_behalf),))
        case scout.Offer(id, attribute) if withheld(name_of(id)):
            return Lie(None, part, (scout.Confirm(id, attribute, NO_PEER),))
        case scout.Raise(event) if withheld(name_of(event.id)):
            return Lie(None, part)
        case scout.Record(event, attribute) if withheld(name_of(event.id)):
            return Lie(None, part, (scout.Recorded(event.id, attribute, False),))
    return _scout_history(part, withheld)


def _scout_history(part: Any, withheld: Withheld) -> Lie:
    match part:
        case scout.Recalled():
            kept = tuple(event for event in part.events if not withheld(name_of(event.id)))
            if len(kept) < len(part.events):
                return Lie(part._replace(events=kept, has_more=False), part)
        case scout.Pulled():
            records = tuple(one for one in part.records if not withheld(name_of(one.event.id)))
            if len(records) < len(part.records):
                return Lie(part._replace(records=records), part)
        case scout.Audited():
            missed = tuple(one for one in part.missed if not withheld(name_of(one.event.id)))
            if len(missed) < len(part.missed):
                return Lie(part._replace(missed=missed, has_more=False), part)
        case scout.Inherit() if part.spans:
            return Lie(None, part)
        case scout.Piece(
            part=scout.Recalled() | scout.Pulled() | scout.Inherit() | scout.Audited()
        ):
            return Lie(None, part)
    return Lie(part)


def _packet(number: int, part: Any, withheld: Withheld) -> Lie:
    whole = Packet(number, part)
    match part:
        case fast.GroupNotify() if withheld(name_of(part.event.id)):
            return Lie(None, whole, (Packet(number, fast.Got(is_wanted=True)),))
        case fast.Relay() if withheld(name_of(part.event.id)):
            return Lie(None, whole, (Packet(number, fast.RelayConfirmed(())),))
        case fast.Keep() if withheld(name_of(part.event.id)):
            return Lie(None, whole, (Packet(number, fast.RequestDone()),))
    return Lie(whole)


def _pulsar(part: Any, withheld: Withheld) -> Lie:
    match part:
        case pulsar.Spread(block) if withheld(block):
            return Lie(None, part)
        case pulsar.KeepEvents(room, _, blocks):
            kept = tuple(block for block in blocks if not withheld(block))
            gone = tuple(cid_of(block) for block in blocks if withheld(block))
            if gone:
                sent = part._replace(blocks=kept) if kept else None
                return Lie(sent, part, (pulsar.Kept(room, gone),))
        case pulsar.Page():
            kept = tuple(block for block in part.blocks if not withheld(block))
            heads = tuple(head for head in part.heads if not withheld(head.cid))
            if len(kept) < len(part.blocks) or len(heads) < len(part.heads):
                return Lie(part._replace(blocks=kept, has_more=False, heads=heads), part)
        case pulsar.Beat() | pulsar.Welcome() if part.heads:
            heads = tuple(head for head in part.heads if not withheld(head.cid))
            return Lie(part._replace(heads=heads))
    return Lie(part)


def _rpc(message: Rpc, withheld: Withheld) -> Lie:
    copies = tuple(copy for copy in message.publish if not withheld(name_of(copy.event.id)))
    control = message.control
    if control is not None and control.ihave:
        ihave = tuple(id for id in control.ihave if not withheld(name_of(id)))
        control = control._replace(ihave=ihave)
    sent = message._replace(publish=copies, control=control)
    if sent == message:
        return Lie(message)
    gone = tuple(copy for copy in message.publish if copy not in copies)
    return Lie(None if sent == Rpc() else sent, Rpc(publish=gone) if gone else None)


# --- forged acknowledgements ---


class Forgery(NamedTuple):
    """The result of forging answers to a received message."""

    received: Any
    """The part that its core gets; None for nothing."""
    answers: tuple[tuple[Peer, Any], ...] = ()
    """The answers that it sends at once, with their receivers."""


class Liar(NamedTuple):
    """The node that forges acknowledgements, and the time."""

    own: Peer
    signing: Signing
    incarnation: int
    now: int


def forged_answers(peer: Peer, message: object, liar: Liar) -> Forgery:
    """Acknowledge the events in a message, and forget them."""
    match message:
        case Bundle(parts):
            received, answers = [], []
            for part in parts:
                answer = _forged_scout(peer, part, liar)
                if answer is None:
                    received.append(part)
                else:
                    answers.append(answer)
            return Forgery(Bundle(tuple(received)) if received else None, tuple(answers))
        case Packet(number, fast.Relay()):
            return Forgery(None, ((peer, Packet(number, fast.RelayConfirmed(()))),))
        case Packet(number, fast.Keep()):
            return Forgery(None, ((peer, Packet(number, fast.RequestDone())),))
        case Parcel(parts):
            keeping = [part for part in parts if isinstance(part, pulsar.KeepEvents)]
            rest = [p for p in parts if not isinstance(p, pulsar.KeepEvents | pulsar.Spread)]
            kept = tuple(
                pulsar.Kept(part.topic_id, tuple(map(cid_of, part.blocks))) for part in keeping
            )
            sent = ((peer, Parcel(kept)),) if kept else ()
            return Forgery(Parcel(tuple(rest)) if rest else None, sent)
        case Rpc():
            rest_of_rpc = message._replace(publish=())
            return Forgery(None if rest_of_rpc == Rpc() else rest_of_rpc)
    return Forgery(message)


def _forged_scout(peer: Peer, part: Any, liar: Liar) -> tuple[Peer, Bundle] | None:
    """The answer to a message about an event; None if it is about something else."""
    match part:
        case scout.Raise(event, attribute) if event.id.publisher != liar.own:
            evidence = _evidence(liar, partial(held_bytes, event.id, attribute))
            return event.id.publisher, Bundle((scout.Admitted(event.id, attribute, "", evidence),))
        case scout.Record(event, attribute):
            return peer, Bundle((_recorded(event.id, attribute, liar),))
        case scout.KeepForAudits(event, attribute):
            place = (event.id, attribute, liar.incarnation, liar.now, event.digest)
            kept = scout.KeptAt(*place, _evidence(liar, partial(kept_bytes, *place)))
            return peer, Bundle((kept, _recorded(event.id, attribute, liar)))
        case scout.Notify(event, attribute):
            return peer, Bundle((scout.Confirm(event.id, attribute, part.on_behalf),))
    return None


def _recorded(id: EventId, attribute: str, liar: Liar) -> scout.Recorded:
    evidence = _evidence(liar, partial(held_bytes, id, attribute))
    return scout.Recorded(id, attribute, False, evidence)


def _evidence(liar: Liar, statement: Callable[[], bytes]) -> bytes:
    (evidence,) = liar.signing.sign_statements([statement])
    return evidence
