"""Why an event has arrived at a node, or has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.tracking import Cause
from tests.node.hosts import LOOPBACK, run


def test_two_nodes_know_together_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path / "a", listen=[LOOPBACK]) as a:
            second = Node(data=tmp_path / "b", listen=[LOOPBACK], bootstrap=a.addresses)
            async with (
                second as b,
                b.subscribe("surf/price[0,9]", buffer_count_max=1) as events,
            ):
                dear = await a.publish("surf/price=50")
                ids = [(await a.publish(f"surf/price={n}", wait="all")).id for n in (2, 3)]
                assert (await anext(events)).id == ids[1]

                async def cause(id: str) -> Cause:
                    publisher_facts = await a.event_facts(id)
                    found = await b.why(
                        id, filter="surf/price[0,9]", publisher_facts=publisher_facts
                    )
                    return found.cause

                assert await cause(dear.id) is Cause.NOT_MATCHED
                assert await cause(ids[0]) is Cause.DROPPED
                assert await cause(ids[1]) is Cause.DELIVERED
                known = await b.why(dear.id, subscription=events.number)
                assert known.cause is Cause.UNKNOWN
                with pytest.raises(SmartPubSubError, match="there is no subscription 99"):
                    await b.why(dear.id, subscription=99)
                with pytest.raises(SmartPubSubError, match="either"):
                    await b.why(dear.id)

    run(main)
