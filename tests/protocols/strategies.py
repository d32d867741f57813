"""Messages of pubsub within the limits."""

from hypothesis import strategies as st

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.baselines.messages import Control, Copy, Rpc, RpcLimits
from smartpubsub.protocols.publication import (
    SIGNED_FIRST,
    TIME_END_US,
    EventId,
    Publication,
    unsigned_bytes,
)
from tests.predicates.said import predicate
from tests.predicates.strategies import said

WORDS_MAX = (1 << 32) - 1

# Numbers around which a varint takes one byte more are worth trying.
_steps = st.sampled_from([0, 1, 127, 128, 16_383, 16_384])
words = _steps | st.integers(0, WORDS_MAX)
peers = st.binary(min_size=1, max_size=40) | st.just(b"p" * 128)
ids = st.builds(EventId, peers, words, words)
payloads = st.binary(max_size=40) | _steps.map(lambda length: b"x" * length)
signatures = st.binary(max_size=64)
times = _steps | st.integers(0, TIME_END_US - 1)
publications = st.builds(Publication.of, ids, said().map(predicate), payloads, signatures, times)
copies = st.builds(Copy, publications, st.integers(1, 300) | st.just(RpcLimits().hops_max))
some_ids = st.lists(ids, max_size=4).map(tuple)
controls = st.builds(
    Control,
    ihave=some_ids,
    iwant=some_ids,
    graft=st.booleans(),
    prune_s=st.none() | _steps | st.integers(0, 86_400),
)
rpcs = st.builds(
    Rpc,
    subscribe=st.none() | st.booleans(),
    publish=st.lists(copies, max_size=3).map(tuple),
    control=st.none() | controls,
)


def signing_bytes(id: EventId, predicate: Predicate, payload: bytes, created_us: int = 0) -> bytes:
    """The bytes that a publisher signs: the event without its hops, which change on the way."""
    return SIGNED_FIRST + unsigned_bytes(id, predicate, payload, created_us)
