"""Messages within the limits."""

from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message, Record

# Lengths around which a varint takes one byte more are worth trying.
_long = st.sampled_from([127, 128, 129, 1024]).map(lambda length: b"x" * length)
names = st.binary(max_size=40) | _long
record_values = names | st.sampled_from([16_383, 16_384, 65_536]).map(lambda n: b"v" * n)
peers = st.binary(min_size=1, max_size=128)
addresses = st.lists(st.binary(max_size=40) | st.just(b"a" * 512), max_size=16).map(tuple)
contacts = st.builds(Contact.of, peers, addresses)
some_contacts = st.lists(contacts, max_size=4).map(tuple)
messages = st.builds(
    Message,
    st.sampled_from(Kind),
    names,
    st.none() | st.builds(Record, names, record_values),
    some_contacts,
    some_contacts,
)
