"""Groups as applications use them, on real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from smartpubsub import Node
from smartpubsub.node.api.listing import JoinRequest
from smartpubsub.node.errors import (
    EventRefusedError,
    LimitError,
    NodeError,
    NotInTimeError,
    NotOwnerError,
)
from smartpubsub.protocols.pubsub import SubscriptionState
from tests.node.hosts import LOOPBACK, eventually, inside, run


def node_in(folder: Path, *bootstrap: Node) -> Node:
    addresses = [address for node in bootstrap for address in node.addresses]
    return Node(data=folder, listen=[LOOPBACK], bootstrap=addresses, region="here")


@asynccontextmanager
async def three_nodes(folder: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    async with (
        node_in(folder / "a") as a,
        node_in(folder / "b", a) as b,
        node_in(folder / "c", a) as c,
    ):
        yield a, b, c


def test_a_group_is_found_joined_and_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):
            group = await a.group("apple/france/price[0,1]").create()
            (found,) = await b.search_groups("apple/price[0,0.5]")
            assert (str(found.predicate), found.owner) == (
                "apple/france/price[0,1]",
                a.addresses[0],
            )
            assert await c.search_groups("apple/price[0,5]") == []
            theirs = b.group(found.predicate, found.owner)
            async with (
                theirs.join("apple/price[0,0.5]") as cheap,
                c.group(found.predicate, a.peer_id).join() as everything,
            ):
                await group.publish("apple/france/price=0.9", b"dear", wait="all")
                receipt = await group.publish("apple/france/price=0.4", b"cheap", wait="all")
                event = await anext(cheap)
                assert (event.payload, event.hops, event.id) == (b"cheap", 1, receipt.id)
                assert event.publisher == a.peer_id
                assert [(await anext(everything)).payload for _ in range(2)] == [b"dear", b"cheap"]
                assert await theirs.leave() == 1
                with pytest.raises(StopAsyncIteration):
                    await anext(cheap)
                await group.publish("apple/france/price=0.3", b"late", wait="all")
                assert (await anext(everything)).payload == b"late"

    run(main)


def test_only_the_owner_publishes_and_only_what_is_in_the_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            group = await a.group("apple/price[0,1]").create()
            with pytest.raises(
                EventRefusedError, match="does not match the predicate of the group"
            ):
                await group.publish("apple/price=2")
            with pytest.raises(NotOwnerError):
                await b.group("apple/price[0,1]", a.peer_id).publish("apple/price=0.5")
            with pytest.raises(EventRefusedError, match="only the owner"):
                await b.group("apple/price[0,1]").publish("apple/price=0.5")
            with pytest.raises(NodeError, match="name the owner of the group"):
                b.group("apple/price[0,1]").join()
            with pytest.raises(NodeError, match="neither a peer id"):
                b.group("apple", "nobody!").join()

    run(main)


def test_a_contract_sees_signed_requests_and_a_refusal_is_an_error(tmp_path: Path) -> None:
    seen: list[JoinRequest] = []

    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):

            def accept(request: JoinRequest) -> bool | str:
                seen.append(request)
                return request.peer_id == b.peer_id or "customers only"

            group = await a.group("apple").create(accept=accept)
            async with b.group("apple", a.addresses[0]).join() as events:
                with pytest.raises(EventRefusedError, match="joining apple was refused: customers"):
                    async with c.group("apple", a.addresses[0]).join():
                        pass
                await group.publish("apple", b"for b", wait="all")
                assert (await anext(events)).payload == b"for b"
            assert [request.peer_id for request in seen[:2]] == [b.peer_id, c.peer_id]
            assert len(seen[0].signature) == 64
            with pytest.raises(EventRefusedError, match="it exists already and has a contract"):
                await a.group("apple").create()
            await a.group("apple").create(accept=lambda _: True)
            async with c.group("apple", a.addresses[0]).join():
                pass

    run(main)


def test_a_private_group_needs_an_invitation_for_the_very_guest(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):
            group = await a.group("board-meeting").create(private=True)
            assert await b.search_groups("board-meeting") == []
            invitation = await group.invite(b.peer_id)
            async with b.group("board-meeting", a.addresses[0]).join(invitation=invitation) as got:
                with pytest.raises(EventRefusedError, match="invitation"):
                    async with c.group("board-meeting", a.addresses[0]).join(invitation=invitation):
                        pass
                await group.publish("board-meeting", b"secret", wait="all")
                assert (await anext(got)).payload == b"secret"

    run(main)


def test_the_same_interest_in_a_group_and_without_one_gives_an_event_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, c):
            group = await a.group("apple/price[0,1]").create()
            async with (
                b.group("apple/price[0,1]", a.peer_id).join(everywhere=True) as events,
                c.subscribe("apple") as elsewhere,
            ):
                for number in range(5):
                    await group.publish("apple/price=0.5", b"%d" % number, everywhere=True)
                assert [(await anext(elsewhere)).payload for _ in range(5)] == [
                    b"%d" % number for number in range(5)
                ]
                got = [(await anext(events)).payload for _ in range(5)]
                assert sorted(got) == [b"%d" % number for number in range(5)]
                await group.publish("apple/price=0.5", b"last", everywhere=True, wait="all")
                assert (await anext(events)).payload == b"last"
                with trio.move_on_after(0.5):
                    pytest.fail(f"one came twice: {await anext(events)}")

    run(main)


def test_groups_and_members_are_there_again_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "b") as b:
            async with node_in(tmp_path / "a", b) as a:
                await a.group("apple").create()
                owner = a.peer_id
                events = b.group("apple", owner).join()
                await events.__aenter__()
            async with node_in(tmp_path / "a", b) as a:
                assert a.peer_id == owner
                with trio.fail_after(60):
                    await a.group("apple").publish("apple", b"again", wait="all")
                    assert (await anext(events)).payload == b"again"
            await events.__aexit__(None, None, None)

    run(main)


def test_a_join_beyond_the_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            node_in(tmp_path / "a") as a,
            Node(
                data=tmp_path / "b", listen=[LOOPBACK], bootstrap=a.addresses, group_count_max=1
            ) as b,
        ):
            for name in ("apple", "pear"):
                await a.group(name).create()
            async with b.group("apple", a.peer_id).join():
                with pytest.raises(LimitError, match=r"as it may be, 1,.*group_count_max") as told:
                    async with b.group("pear", a.peer_id).join():
                        pass
                assert "joining pear was refused" in str(told.value)
            async with b.group("pear", a.peer_id).join():
                assert [str(known.predicate) for known in await b.groups()] == ["pear"]
            await b.group("plum").create()
            with pytest.raises(EventRefusedError, match=r"as it may, 1;.*group_count_max"):
                await b.group("cherry").create()

    run(main)


def test_a_member_that_is_not_wanted_any_more_gets_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with three_nodes(tmp_path) as (a, b, _):
            group = await a.group("apple").create()
            theirs = b.group("apple", a.peer_id)
            async with theirs.join() as events, theirs.join(everywhere=True) as all_events:
                await group.publish("apple", b"first", wait="all")
                await group.create(accept=lambda _: "closed")
                with pytest.raises(EventRefusedError, match="closed"):
                    async with b.group("apple", a.peer_id).join("apple/red"):
                        pass
                assert (await anext(events)).payload == b"first"
                with pytest.raises(EventRefusedError, match="ended the membership: closed"):
                    await anext(events)
                assert (await anext(all_events)).payload == b"first"
                with pytest.raises(EventRefusedError, match="ended the membership: closed"):
                    await anext(all_events)
                assert inside(events).state is SubscriptionState.REFUSED

    run(main)


def test_who_searches_is_not_stopped_by_an_owner_that_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            three_nodes(tmp_path) as (a, b, _),
            Node(
                data=tmp_path / "d",
                listen=[LOOPBACK],
                bootstrap=a.addresses,
                protocol="fastdelivery",
            ) as d,
        ):
            await a.group("apple").create(accept=lambda _: False)
            willing = await b.group("apple").create()
            async with d.subscribe("apple") as events:
                assert inside(events).state is SubscriptionState.IN_PART
                await willing.publish("apple", b"from b", wait="all")
                assert (await anext(events)).payload == b"from b"

    run(main)


def test_nobody_is_in_a_group_whose_owner_does_not_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "b") as b:
            async with node_in(tmp_path / "a") as a:
                owner = a.addresses[0]
                with pytest.raises(NodeError, match="apple is not private"):
                    await (await a.group("apple").create()).invite(b.peer_id)
            membership = b.group("apple", owner).join(deadline_s=0.5)
            with pytest.raises(NotInTimeError, match=r"owner of the group apple has not answered"):
                await membership.__aenter__()

    run(main)


def test_a_member_waits_for_an_owner_that_comes_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_in(tmp_path / "b") as b:
            async with node_in(tmp_path / "a") as a:
                owner = a.addresses[0]
                await a.group("apple").create()
            membership = b.group("apple", owner).join()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(membership.__aenter__)
                await eventually(lambda: membership.number is not None)
                assert inside(membership).state is SubscriptionState.PENDING
                listen = owner.partition("/p2p/")[0]
                again = Node(data=tmp_path / "a", listen=[listen], bootstrap=b.addresses)
                async with again as a:
                    await eventually(lambda: inside(membership).state is SubscriptionState.IN_FORCE)
                    await a.group("apple").publish("apple", b"fresh")
                    assert (await anext(membership)).payload == b"fresh"
                    await membership.__aexit__(None, None, None)

    run(main)
