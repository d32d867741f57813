"""Processor time by peer."""

import pytest

from smartpubsub.node.transport.shares import BLOCKING_FACTOR, SLICE_S, Shares


def test_a_peer_that_costs_its_share_never_waits() -> None:
    shares = Shares(0.5, 0.1, 5)
    for tick in range(1_000):
        shares.charge(b"p", SLICE_S / 2, tick * SLICE_S)
        assert shares.delay_s(b"p", tick * SLICE_S) == 0


def test_a_peer_that_costs_more_waits_until_it_has_made_up_for_it() -> None:
    shares = Shares(0.5, 0.1, 5)
    for _ in range(200):
        shares.charge(b"p", SLICE_S, 0)

    assert shares.delay_s(b"p", 0) == pytest.approx((1 - 0.1) / 0.5)
    assert shares.delay_s(b"p", 1) == pytest.approx((1 - 0.1) / 0.5 - 1)
    assert shares.delay_s(b"q", 0) == 0


def test_what_blocks_all_others_for_long_counts_several_times() -> None:
    shares = Shares(0.5, 0.1, 5)
    shares.charge(b"p", 1.0, 0)

    counted = 1 + BLOCKING_FACTOR * (1 - SLICE_S)
    assert shares.delay_s(b"p", 0) == pytest.approx((counted - 0.1) / 0.5)


def test_of_many_peers_those_heard_last_are_remembered() -> None:
    shares = Shares(0.5, 0.1, 2)
    for peer in (b"p", b"q", b"p", b"r"):
        shares.charge(peer, 1.0, 0)

    assert [shares.delay_s(peer, 0) > 0 for peer in (b"p", b"q", b"r")] == [True, False, True]
