"""What an owner has stored: values that are damaged cost that value only."""

import pytest

from smartpubsub.protocols.fastdelivery.messages import Packet
from smartpubsub.protocols.fastdelivery.persistence import GroupStore, StoredGroup
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Store


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"group/surf", b"\x01"),
        (b"group/\xff", b"\x01\x00\x00"),
        (b"member/surf", b"no packet"),
        (b"member/surf", b""),
    ],
)
def test_a_damaged_value_is_counted_and_removed_and_the_others_are_read(
    key: bytes, value: bytes
) -> None:
    outbox: Outbox[Packet] = Outbox("fastdelivery", list)
    store = GroupStore(outbox)
    intact = (b"fastdelivery/group/ski", b"\x01\x00\x01")

    found = list(store.read([(b"fastdelivery/" + key, value), intact]))

    assert [str(group.predicate) for group in found if isinstance(group, StoredGroup)] == ["ski"]
    assert outbox.rejected == {"stored values": 1}
    assert outbox.take() == [Store(b"fastdelivery/" + key, None)]
