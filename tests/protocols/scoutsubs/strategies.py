"""Bundles within the limits."""

from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.scoutsubs import parts
from smartpubsub.protocols.scoutsubs.parts import NOBODY, WHOLE, Bundle
from smartpubsub.protocols.scoutsubs.shard_names import EPOCH_MAX
from smartpubsub.protocols.scoutsubs.wire import HOPS_MAX
from tests.predicates.said import predicate
from tests.predicates.strategies import names, said
from tests.protocols.strategies import ids, peers, publications

NUMBER_MAX = (1 << 63) - 1

# Numbers and lengths around which a varint takes one byte more are worth trying.
numbers = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, NUMBER_MAX]) | st.integers(0, NUMBER_MAX)
hops = st.integers(0, HOPS_MAX)
stages = st.sampled_from([0, 1, 2, EPOCH_MAX]) | st.integers(0, EPOCH_MAX)
bases = st.just(WHOLE) | numbers.filter(lambda number: number < NUMBER_MAX)
flags = st.booleans()
attributes = names() | st.sampled_from([127, 128, 1024]).map(lambda length: "n" * length)
peers_or_none = st.just(NOBODY) | peers
addresses = st.lists(st.binary(max_size=40) | st.just(b"a" * 512), max_size=3).map(tuple)
contacts = st.builds(Contact.of, peers, addresses)
some_contacts = st.lists(contacts, max_size=3).map(tuple)
signatures = st.sampled_from([0, 1, 64]).map(lambda length: b"s" * length)
some_holders = st.lists(st.builds(parts.Holder, peers, signatures), max_size=3).map(tuple)
some_predicates = st.lists(said().map(predicate), max_size=3).map(tuple)
children = st.builds(
    parts.ChildCopy,
    contacts,
    numbers,
    numbers,
    some_predicates,
    st.none() | contacts,
    some_contacts,
)
some_children = st.lists(children, max_size=2).map(tuple)
records = st.builds(parts.Record, publications, attributes, hops, flags, numbers)
trees = st.tuples(attributes, some_children)

some_parts = st.one_of(
    st.builds(
        parts.Announce,
        attributes,
        numbers,
        numbers,
        bases,
        some_predicates,
        some_predicates,
        st.none() | contacts,
        some_contacts,
        flags,
        signatures,
        numbers,
        stages,
    ),
    st.builds(
        parts.Announced,
        attributes,
        numbers,
        numbers,
        numbers,
        flags,
        st.none() | contacts,
        signatures,
        stages,
    ),
    st.builds(parts.Raise, publications, attributes, numbers, hops, flags, flags, numbers, flags),
    st.builds(parts.Admitted, ids, attributes, st.text(max_size=40), signatures, some_holders),
    st.builds(parts.Completed, ids, attributes, signatures),
    st.builds(parts.Notify, publications, attributes, hops, flags, peers_or_none),
    st.builds(parts.Confirm, ids, attributes, peers_or_none, signatures),
    st.builds(parts.Elsewhere, attributes, some_predicates),
    st.builds(parts.Offer, ids, attributes, said().map(predicate)),
    st.builds(parts.Want, ids, attributes),
    st.builds(parts.NoCopy, ids, attributes, peers_or_none),
    st.builds(
        parts.CopyTree,
        attributes,
        flags,
        numbers,
        flags,
        some_children,
        st.lists(peers, max_size=3).map(tuple),
        stages,
    ),
    st.builds(parts.TreeCopied, attributes, numbers, flags),
    records,
    st.builds(parts.Recorded, ids, attributes, flags, signatures),
    st.builds(parts.Done, ids, attributes),
    st.builds(parts.Pull, attributes),
    st.builds(
        parts.Pulled,
        attributes,
        flags,
        peers_or_none,
        some_children,
        st.lists(records, max_size=2).map(tuple),
        stages,
    ),
    st.just(parts.PullOwn()),
    st.builds(parts.PulledOwn, st.lists(trees, max_size=2).map(tuple)),
    st.builds(parts.Adopt, attributes, peers_or_none),
    st.builds(
        parts.Recall,
        attributes,
        numbers,
        said().map(predicate),
        numbers,
        st.none() | ids,
        numbers,
        st.none() | ids,
    ),
    st.builds(
        parts.Recalled,
        attributes,
        numbers,
        st.lists(publications, max_size=3).map(tuple),
        flags,
        numbers,
        numbers,
    ),
    st.builds(
        parts.Inherit,
        attributes,
        numbers,
        st.lists(st.builds(parts.Span, numbers, numbers, numbers), max_size=3).map(tuple),
        flags,
    ),
    st.builds(parts.Probe, numbers),
    st.builds(parts.Alive, numbers, numbers),
)
pieces = st.builds(parts.Piece, numbers, numbers, numbers, some_parts)
bundles = st.builds(Bundle, st.lists(some_parts | pieces, max_size=4).map(tuple))
