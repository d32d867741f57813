"""Processor time by peer."""

import pytest

from smartpubsub.node.transport.shares import BLOCKING_FACTOR, MEMBER_DEBT_S_MAX, SLICE_S, Shares


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


def test_many_peers_that_cost_more_get_the_share_of_one_together() -> None:
    shares = Shares(0.5, 0.1, 20)
    peers = [b"%d" % number for number in range(10)]
    now_s, used_s = 0.0, 0.0
    while now_s < 100:
        for peer in peers:
            if shares.delay_s(peer, now_s) == 0:
                shares.charge(peer, SLICE_S, now_s)
                used_s += SLICE_S
        now_s += SLICE_S
    assert 0.4 * now_s < used_s < 0.6 * now_s + 10 * 0.1
    assert shares.delay_s(b"modest", now_s) == 0
    assert shares.delay_s(peers[0], now_s + 60) == 0


def test_many_strangers_that_cost_little_each_get_their_share_together() -> None:
    shares = Shares(0.5, 0.1, 20, strangers_share=0.25)
    peers = [b"%d" % number for number in range(10)]
    now_s, used_s = 0.0, 0.0
    while now_s < 100:
        for peer in peers:
            if shares.delay_s(peer, now_s) == 0:
                shares.charge(peer, SLICE_S / 10, now_s)
                used_s += SLICE_S / 10
        now_s += SLICE_S
    assert 0.2 * now_s < used_s < 0.3 * now_s + 10 * 0.1


def test_members_of_the_overlay_have_a_share_each() -> None:
    shares = Shares(0.5, 0.0, 20, lambda peer: peer != b"stranger")
    for peer in (b"p", b"q", b"stranger"):
        shares.charge(peer, SLICE_S, 0)
    assert shares.delay_s(b"p", 0) == shares.delay_s(b"stranger", 0) == pytest.approx(2 * SLICE_S)


def test_what_blocks_all_others_for_long_counts_several_times() -> None:
    shares = Shares(0.5, 0.1, 5)
    shares.charge(b"p", 1.0, 0)

    counted = 1 + BLOCKING_FACTOR * (1 - SLICE_S)
    assert shares.delay_s(b"p", 0) == pytest.approx((counted - 0.1) / 0.5)


def test_a_penalty_brings_a_member_only_a_little_into_debt() -> None:
    shares = Shares(0.5, 0.0, 5, lambda peer: peer != b"stranger")
    # Each second a member forwards a stranger's long announcement.
    for now_s in range(100):
        for peer in (b"member", b"stranger"):
            shares.charge(peer, 0.05, now_s)
        assert shares.delay_s(b"member", now_s) == pytest.approx(MEMBER_DEBT_S_MAX / 0.5)
    assert shares.delay_s(b"stranger", 99) > 1


def test_a_stranger_alone_pays_for_work_elsewhere() -> None:
    shares = Shares(0.5, 0.0, 5, lambda peer: peer == b"member")
    for peer in (b"member", b"stranger"):
        shares.charge(peer, SLICE_S, 0, elsewhere_s=1.0)
    assert shares.delay_s(b"member", 0) == pytest.approx(SLICE_S / 0.5)
    assert shares.delay_s(b"stranger", 0) == pytest.approx((SLICE_S + 1.0) / 0.5)


def test_a_member_that_costs_more_than_its_share_waits_for_all_of_that() -> None:
    shares = Shares(0.5, 0.0, 5, lambda _peer: True)
    for _ in range(10):
        shares.charge(b"p", 1.0, 0)
    assert shares.delay_s(b"p", 0) == pytest.approx(10 / 0.5)


def test_of_many_peers_those_heard_last_are_remembered() -> None:
    shares = Shares(0.5, 0.1, 2)
    for peer in (b"p", b"q", b"p", b"r"):
        shares.charge(peer, 1.0, 0)

    assert [shares.delay_s(peer, 0) > 0 for peer in (b"p", b"q", b"r")] == [True, False, True]
