"""Packets on the wire are what they were, and whatever comes is a packet or a `WireError`."""

import contextlib
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import RpcLimits
from smartpubsub.protocols.fastdelivery import messages
from smartpubsub.protocols.fastdelivery.messages import (
    PART_KINDS,
    Answer,
    GroupId,
    Packet,
    Ping,
    Question,
    Release,
    decode,
    encode,
    wire_bytes,
)
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.runtime.messages import MessageLimits
from smartpubsub.protocols.runtime.requests import ignore_answer
from smartpubsub.seam import Started
from tests.damage import damaged
from tests.predicates.said import predicate
from tests.predicates.strategies import names, said
from tests.protocols.fastdelivery.nodes import FastNodes
from tests.protocols.strategies import peers, publications

LIMITS = MessageLimits()
SURF = Predicate.parse("surf")
EVENT = Publication.of(EventId(b"peer", 2, 300), SURF, b"hi", b"sig")

numbers = st.sampled_from([0, 1, 127, 128, (1 << 63) - 1]) | st.integers(0, (1 << 63) - 1)
durations = st.sampled_from([0, 1, 128, 1 << 40]) | st.integers(0, 1 << 40)
flags = st.booleans()
hops = st.integers(0, 2)
texts = st.text(max_size=40)
signatures = st.binary(max_size=64)
predicates = said().map(predicate)
some_predicates = st.lists(predicates, max_size=3).map(tuple)
some_peers = st.lists(peers, max_size=3).map(tuple)
contacts = st.builds(Contact.of, peers, st.lists(st.binary(max_size=40), max_size=2).map(tuple))
notices = st.builds(messages.Notice, contacts, predicates, signatures)
requests = st.builds(
    messages.Request,
    contacts,
    some_predicates,
    st.text(max_size=20),
    numbers,
    numbers,
    signatures,
)
watched = st.builds(messages.Watched, requests, durations)
groups = st.builds(GroupId, peers, predicates)
charges = st.builds(messages.Charge, contacts, some_predicates)


def some(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


BY_KIND = {
    messages.GroupNotify: st.builds(
        messages.GroupNotify, predicates, publications, hops, flags, numbers
    ),
    messages.Got: st.builds(messages.Got, flags),
    messages.Relay: st.builds(
        messages.Relay,
        predicates,
        numbers,
        publications,
        some_peers,
        flags,
        some(st.builds(messages.Turn, peers, numbers)),
    ),
    messages.RelayConfirmed: st.builds(messages.RelayConfirmed, some_peers),
    messages.Working: st.builds(messages.Working),
    messages.NotHelping: st.builds(messages.NotHelping),
    messages.Join: st.builds(messages.Join, predicates, requests, signatures),
    messages.Joined: st.builds(messages.Joined, texts, peers),
    messages.GroupEnded: st.builds(messages.GroupEnded, predicates),
    messages.ServedBy: st.builds(messages.ServedBy, predicates, peers),
    messages.Recruit: st.builds(messages.Recruit, predicates, numbers, numbers),
    messages.Agreed: st.builds(messages.Agreed, numbers),
    messages.Delegate: st.builds(
        messages.Delegate, predicates, numbers, numbers, some(charges), some_peers
    ),
    messages.Release: st.builds(messages.Release, predicates, numbers),
    messages.RequestDone: st.builds(messages.RequestDone),
    messages.Ping: st.builds(messages.Ping),
    messages.Search: st.builds(
        messages.Search,
        names(),
        predicates,
        st.none() | requests,
        st.none() | groups,
        st.just(b"") | st.binary(min_size=32, max_size=32),
    ),
    messages.Listed: st.builds(messages.Listed, some(notices), flags, some(contacts), texts),
    messages.Advertise: st.builds(messages.Advertise, names(), notices, st.just(b"") | peers),
    messages.Watchers: st.builds(messages.Watchers, some(watched), flags, some(contacts), texts),
    messages.Unwatch: st.builds(messages.Unwatch, names(), predicates),
    messages.CopyDirectory: st.builds(
        messages.CopyDirectory,
        names(),
        some(st.builds(messages.Posted, notices, durations)),
        some(watched),
    ),
    messages.PullDirectory: st.builds(messages.PullDirectory, names()),
    messages.Invite: st.builds(messages.Invite, notices),
    messages.Measure: st.builds(messages.Measure, some(contacts)),
    messages.Measured: st.builds(messages.Measured, some(numbers)),
    messages.Expect: st.builds(messages.Expect, numbers, numbers),
    messages.Review: st.builds(messages.Review, predicates, durations, some(numbers)),
    messages.Reviewed: st.builds(messages.Reviewed, some(publications)),
    messages.Keep: st.builds(messages.Keep, peers, predicates, publications),
}
packets = st.builds(Packet, numbers, st.one_of(*BY_KIND.values()))


def test_all_parts_are_tried_and_have_a_place_in_a_packet() -> None:
    kinds = {*get_args(Question), *get_args(Answer)}
    assert set(BY_KIND) == kinds
    assert set(PART_KINDS) == kinds


@given(packets)
@example(Packet(1, messages.Ping()))
def test_a_packet_comes_as_it_was_sent(packet: Packet) -> None:
    read = decode(encode(packet), LIMITS)
    assert read == packet
    assert type(read.part) is type(packet.part)


@given(packets)
@example(Packet(1, messages.Ping()))
@example(Packet(0, messages.Measured((0, 300))))
def test_a_packet_is_as_long_as_the_simulator_believes(packet: Packet) -> None:
    assert wire_bytes(packet) == len(encode(packet))


@given(packets.map(encode).flatmap(damaged))
def test_damaged_bytes_are_a_packet_or_an_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(data, LIMITS)


@pytest.mark.parametrize(
    ("packet", "data"),
    [
        (Packet(7, messages.Got(is_wanted=True)), "06 08 07 1a 02 08 01"),
        (Packet(1, messages.Ping()), "04 08 01 72 00"),
        (
            Packet(1, messages.Recruit(SURF, 3, 4)),
            "0e 08 01 52 0a 0a 04 73757266 10 03 18 04",
        ),
    ],
)
def test_these_very_bytes_are_sent(packet: Packet, data: str) -> None:
    assert encode(packet) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("packet", "problem"),
    [
        (Packet(1, messages.Joined("x" * 2000)), "a text of 2000 bytes"),
        (Packet(1, messages.RelayConfirmed((b"p",) * 6)), "more than 5 entries"),
        (Packet(1, messages.Unwatch("", SURF)), "no name"),
        (
            Packet(1, messages.GroupNotify(SURF, EVENT._replace(payload=b"x" * 20), 1, False)),
            "payload",
        ),
        (
            Packet(
                1, messages.Join(SURF, messages.Request(Contact.of(b""), (), "", 0, 0, b""), b"")
            ),
            "no id",
        ),
        (
            Packet(1, messages.Invite(messages.Notice(Contact.of(b"p"), SURF, b"s" * 65))),
            "signature",
        ),
    ],
)
def test_what_is_beyond_the_limits_is_refused(packet: Packet, problem: str) -> None:
    small = MessageLimits(entry_count_max=5, events=RpcLimits(payload_bytes_max=10))
    with pytest.raises(WireError, match=problem):
        decode(encode(packet), small)


def test_a_packet_without_a_part_that_is_known_is_refused() -> None:
    with pytest.raises(WireError, match="without a part"):
        decode(framed(bytes.fromhex("0801")), LIMITS)


def test_the_numbers_and_terms_of_a_node_that_starts_before_2106_fit_into_a_packet() -> None:
    fast = FastNodes(1).fast(0)
    fast.handle(Started(incarnation=(1 << 32) - 1), 0)
    number = fast._requests.ask(b"peer", Ping(), ignore_answer)
    packet = Packet(number, Release(Predicate.parse("surf"), fast._owner._first_term + 1))
    assert decode(encode(packet), MessageLimits()) == packet
