"""After a node has looked up itself, what it may still lack is looked up, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import KEY_BITS, Contact, key_of
from smartpubsub.kademlia.refresh import PREFIX_BITS_MAX, name_in_bucket, names_in_far_buckets
from smartpubsub.kademlia.table import RoutingTable

OWN = key_of(b"node")


def table_of(count: int, k: int) -> tuple[RoutingTable, list[Contact]]:
    """The table of a node that knows the k closest and nobody else, and all who are there."""
    everybody = [Contact.of(b"%d" % number) for number in range(count)]
    everybody.sort(key=lambda contact: contact.key ^ OWN)
    table = RoutingTable(OWN, k)
    for contact in everybody[:k]:
        table.heard_from(contact, 0)
    return table, everybody


@given(st.integers(1, 200), st.integers(1, 8))
def test_every_bucket_that_lacks_somebody_is_looked_up(count: int, k: int) -> None:
    table, everybody = table_of(count, k)

    looked_up = {table.index(key_of(name)) for name in names_in_far_buckets(OWN, table)}

    lacking = {table.index(contact.key) for contact in everybody[k:]}
    assert lacking <= looked_up
    closest = table.closest(OWN, k)
    assert min(looked_up) == table.index(closest[-1].key)


def test_nobody_is_looked_up_by_a_node_that_knows_nobody() -> None:
    assert names_in_far_buckets(OWN, RoutingTable(OWN, 20)) == []


def test_a_name_lies_in_its_bucket_if_the_bucket_is_wide_enough() -> None:
    for bits in range(1, 10):
        name = name_in_bucket(OWN, KEY_BITS - bits + 1)
        assert name is not None
        assert (key_of(name) ^ OWN).bit_length() == KEY_BITS - bits + 1
    assert name_in_bucket(OWN, KEY_BITS - PREFIX_BITS_MAX) is None


def test_nodes_look_up_different_names_where_there_are_many_peers() -> None:
    nodes = [key_of(b"%d" % number) for number in range(200)]

    assert len({name_in_bucket(node, KEY_BITS) for node in nodes}) > 50
