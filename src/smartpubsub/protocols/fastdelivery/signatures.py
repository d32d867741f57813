"""Notices, requests and invitations, signed and checked."""

from __future__ import annotations

from functools import partial

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.protocols.fastdelivery.parts import (
    Notice,
    Request,
    invitation_bytes,
    notice_bytes,
    request_bytes,
)
from smartpubsub.seam import Peer


def signed_notice(office: Office, predicate: Predicate) -> Notice:
    """That this node has a group."""
    return Notice(office.own, predicate, office.signing.vouch(partial(notice_bytes, predicate)))


def is_notice_signed(office: Office, notice: Notice) -> bool:
    """Whether it is the owner who says that there is a group."""
    content = partial(notice_bytes, notice.predicate)
    return office.signing.is_vouched(notice.contact.peer, content, notice.signature)


def signed_request(office: Office, predicates: tuple[Predicate, ...], version: int) -> Request:
    """What this node wants."""
    settings = office.settings
    bare = Request(office.own, predicates, settings.region, settings.capacity, version, b"")
    return bare._replace(signature=office.signing.vouch(partial(request_bytes, bare)))


def is_request_signed(office: Office, request: Request) -> bool:
    """Whether it is the subscriber itself who wants what a request says."""
    content = partial(request_bytes, request)
    return office.signing.is_vouched(request.contact.peer, content, request.signature)


def signed_invitation(office: Office, group: Predicate, invited: Peer) -> bytes:
    """That somebody may join a private group of this node."""
    return office.signing.vouch(partial(invitation_bytes, group, invited))


def is_invited(office: Office, group: Predicate, peer: Peer, invitation: bytes) -> bool:
    """Whether this node has invited somebody to a group of its own."""
    content = partial(invitation_bytes, group, peer)
    return office.signing.is_vouched(office.own.peer, content, invitation)
