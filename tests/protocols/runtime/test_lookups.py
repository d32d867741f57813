"""Lookups continue once, with their own result."""

from functools import partial

from smartpubsub.kademlia.queries import Found, Put
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.runtime.lookups import Lookups
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Ask
from tests.kademlia.wired import contact, new_core

OTHER = contact(1)


def test_the_result_of_a_lookup_continues_it_once() -> None:
    core = new_core(0, Settings())
    core.table.heard_from(OTHER, 0)
    outbox: Outbox[str] = Outbox("toy", lambda parts: parts)
    lookups, found = Lookups(outbox, core), list[str]()

    for name in ("one", "two"):
        lookups.find_closest(name.encode(), partial(lambda name, _: found.append(name), name))
    asked = [effect for effect in outbox.take() if isinstance(effect, Ask)]
    assert (len(asked), found) == (2, [])
    numbers = list(lookups._pending)

    for number in (numbers[1], numbers[1], 99):
        lookups.on_result(Found(number, b"", (OTHER,), 1))
    assert found == ["two"]

    lookups.on_result("what another component has told")
    lookups.on_result(Put(numbers[0], b"", copies=0))
    assert found == ["two", "one"]


def test_a_lookup_that_ends_at_once_continues_at_once() -> None:
    outbox: Outbox[str] = Outbox("toy", lambda parts: parts)
    lookups, found = Lookups(outbox, new_core(0, Settings())), list[Found]()

    lookups.find_closest(b"name", found.append)

    assert [contact.peer for contact in found[0].closest] == [contact(0).peer]
    assert not outbox.take()
