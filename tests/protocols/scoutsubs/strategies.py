"""Bundles within the limits."""

from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.scoutsubs import messages
from smartpubsub.protocols.scoutsubs.messages import HOPS_MAX, NO_PEER, WHOLE, Bundle
from smartpubsub.protocols.scoutsubs.shard_names import EPOCH_MAX
from tests.predicates.said import predicate
from tests.predicates.strategies import names, said
from tests.protocols.strategies import ids, peers, publications

NUMBER_MAX = (1 << 63) - 1

# Numbers and lengths around which a varint takes one byte more are worth trying.
numbers = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, NUMBER_MAX]) | st.integers(0, NUMBER_MAX)
durations = st.sampled_from([0, 1, 128, 1 << 40]) | st.integers(0, 1 << 40)
hops = st.integers(0, HOPS_MAX)
epochs = st.sampled_from([0, 1, 2, EPOCH_MAX]) | st.integers(0, EPOCH_MAX)
bases = st.just(WHOLE) | numbers.filter(lambda number: number < NUMBER_MAX)
flags = st.booleans()
more = st.integers(0, messages.RANGE_COUNT_MAX - 1)
attributes = names() | st.sampled_from([127, 128, 1024]).map(lambda length: "n" * length)
peers_or_none = st.just(NO_PEER) | peers
addresses = st.lists(st.binary(max_size=40) | st.just(b"a" * 512), max_size=3).map(tuple)
contacts = st.builds(Contact.of, peers, addresses)
some_contacts = st.lists(contacts, max_size=3).map(tuple)
event_digests = st.binary(min_size=32, max_size=32)
evidence = st.sampled_from([0, 1, 64, 64 + 17]).map(lambda length: b"s" * length)
some_holders = st.lists(st.builds(messages.Holder, peers, evidence), max_size=3).map(tuple)
some_predicates = st.lists(said().map(predicate), max_size=3).map(tuple)
children = st.builds(
    messages.ChildCopy,
    contacts,
    numbers,
    numbers,
    some_predicates,
    st.none() | contacts,
    some_contacts,
)
some_children = st.lists(children, max_size=2).map(tuple)
records = st.builds(messages.Record, publications, attributes, hops, flags, durations)
trees = st.tuples(attributes, some_children)
digests = st.lists(numbers, max_size=3).map(tuple)
answers = st.builds(
    messages.SignedAnswer,
    *(peers, attributes, some_predicates, digests, numbers, numbers, numbers, digests, evidence),
)

some_parts = st.one_of(
    st.builds(
        messages.Announce,
        attributes,
        numbers,
        numbers,
        bases,
        some_predicates,
        some_predicates,
        st.none() | contacts,
        some_contacts,
        flags,
        durations,
        epochs,
    ),
    st.builds(
        messages.Announced,
        attributes,
        numbers,
        numbers,
        numbers,
        flags,
        st.none() | contacts,
        epochs,
    ),
    st.builds(
        messages.Raise, publications, attributes, numbers, hops, flags, flags, durations, flags
    ),
    st.builds(
        messages.Admitted, ids, attributes, st.text(max_size=40), evidence, some_holders, more
    ),
    st.builds(messages.Completed, ids, attributes),
    st.builds(messages.Notify, publications, attributes, hops, flags, peers_or_none),
    st.builds(messages.Confirm, ids, attributes, peers_or_none, more),
    st.builds(messages.Elsewhere, attributes, some_predicates),
    st.builds(messages.Offer, ids, attributes, said().map(predicate)),
    st.builds(messages.Want, ids, attributes),
    st.builds(messages.NoCopy, ids, attributes, peers_or_none),
    st.builds(
        messages.CopyTree,
        attributes,
        flags,
        numbers,
        flags,
        some_children,
        st.lists(peers, max_size=3).map(tuple),
        epochs,
    ),
    st.builds(messages.TreeCopied, attributes, numbers, flags),
    records,
    st.builds(messages.Recorded, ids, attributes, flags, evidence, more),
    st.builds(messages.Done, ids, attributes, more),
    st.builds(messages.Pull, attributes),
    st.builds(
        messages.Pulled,
        attributes,
        flags,
        peers_or_none,
        some_children,
        st.lists(records, max_size=2).map(tuple),
        epochs,
    ),
    st.just(messages.PullOwn()),
    st.builds(messages.PulledOwn, st.lists(trees, max_size=2).map(tuple)),
    st.builds(messages.Adopt, attributes, peers_or_none),
    st.builds(
        messages.Recall,
        attributes,
        numbers,
        said().map(predicate),
        numbers,
        st.none() | ids,
        numbers,
        st.none() | ids,
    ),
    st.builds(
        messages.Recalled,
        attributes,
        numbers,
        st.lists(publications, max_size=3).map(tuple),
        flags,
        numbers,
        numbers,
    ),
    st.builds(
        messages.Inherit,
        attributes,
        numbers,
        st.lists(st.builds(messages.Span, numbers, numbers, numbers), max_size=3).map(tuple),
        flags,
    ),
    st.builds(messages.KeepForAudits, publications, attributes),
    st.builds(
        messages.Audit,
        attributes,
        numbers,
        st.lists(said().map(predicate), max_size=3).map(tuple),
        st.integers(0, 1 << 40),
        st.integers(0, 1 << 40),
        st.lists(numbers, max_size=3).map(tuple),
    ),
    st.builds(
        messages.Audited,
        attributes,
        numbers,
        st.lists(st.builds(messages.Missed, publications, st.just(5)), max_size=3).map(tuple),
        flags,
        st.binary(max_size=32),
        numbers,
        numbers,
        numbers,
    ),
    st.builds(messages.KeptAt, ids, attributes, numbers, numbers, event_digests, evidence),
    st.builds(messages.Accuse, ids, answers),
    st.builds(messages.Convict, publications, numbers, evidence, answers),
    st.builds(messages.Probe, numbers),
    st.builds(messages.Alive, numbers, numbers),
)
pieces = st.builds(messages.Piece, numbers, numbers, numbers, some_parts)
bundles = st.builds(Bundle, st.lists(some_parts | pieces, max_size=4).map(tuple))
