"""A node starts with the data folder of every earlier format, and has what was in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.node.api.listing import EventState
from smartpubsub.node.storage.store_file import MIGRATIONS
from smartpubsub.protocols.publication import event_id_from_text
from tests.node.data_folders import (
    KEY,
    LOOPBACK,
    ORDER,
    TOPIC,
    WAITING,
    archive_of,
    unpacked,
)
from tests.node.hosts import run

HOUR_NS = 3_600 * 10**9


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_data_folder_of_each_format_is_read(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive_of(version).exists(), "make it with: python -m tests.node.data_folders"
    expected = unpacked(version, tmp_path)
    made_s = event_id_from_text(expected["waiting"][0]).incarnation
    # An hour later, since a node drops events that are too old.
    monkeypatch.setattr(time, "time_ns", lambda: made_s * 10**9 + HOUR_NS)

    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            assert node.peer_id == expected["peer_id"]
            [subscription] = await node.subscriptions()
            assert (str(subscription.predicate), subscription.is_kept) == ("surf", True)
            history = await node.topic(expected["topic"]).history()
            assert [entry.payload for entry in history] == TOPIC
            assert [str(group.predicate) for group in await node.groups()] == [expected["group"]]
            if version > 1:  # These are new in version 2.
                assert subscription.waiting == len(WAITING)
                assert (await node.event(expected["order"])).state is EventState.ACKNOWLEDGED
                assert (await node.publish("order", ORDER, key=KEY)).id == expected["order"]
                async with node.subscribe("surf", keep=True) as events:
                    given = [await anext(events) for _ in WAITING]
                assert [(e.id, e.payload) for e in given] == [
                    *zip(expected["waiting"], WAITING, strict=True)
                ]
            async with node.subscribe("price", last=10) as events:
                past = [await anext(events) for _ in range(events.recalled)]
                assert [event.id for event in past] == expected["waiting"]

    run(main)
