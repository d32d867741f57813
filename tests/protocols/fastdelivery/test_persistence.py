"""What an owner has stored: values that are damaged cost that value only."""

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import ATTRIBUTES_MAX, Predicate
from smartpubsub.protocols.fastdelivery.messages import Packet, Request
from smartpubsub.protocols.fastdelivery.persistence import GroupStore, StoredGroup, StoredMember
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


def test_a_member_of_a_group_with_more_attributes_than_usual_is_read_back() -> None:
    outbox: Outbox[Packet] = Outbox("fastdelivery", list)
    store = GroupStore(outbox)
    count = 4 * ATTRIBUTES_MAX
    text = "/".join(f"a{number}" for number in range(count))
    group = Predicate.parse(text, attributes_max=count)
    member = StoredMember(group, Request(Contact.of(b"peer"), (group,), "", 0, 1, b""), 77)

    store.put_member(member)
    (stored,) = (effect for effect in outbox.take() if isinstance(effect, Store))
    assert stored.value is not None
    assert list(store.read([(stored.key, stored.value)])) == [member]
