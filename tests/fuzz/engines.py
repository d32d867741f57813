"""Targets for the native module. They import nothing that a sanitized process cannot load."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching import Index
from smartpubsub.matching.storage import IndexFileError
from smartpubsub.native import native
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.dagcbor import (
    DEPTH_MAX,
    ITEM_COUNT_MAX,
    EncodingError,
    Link,
    decode_in_python,
    encode_in_python,
)
from tests.fuzz.mutation import mutated

PREDICATES = [Predicate.parse(f"surf/price[{low},{low + 9}]") for low in range(20)]


def fuzz_indexes(rng: Random) -> None:
    """Load mutated index files."""
    index = Index(engine="native")
    for key, predicate in enumerate(PREDICATES):
        index.add(key, predicate)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index.save(path)
        path.write_bytes(mutated(path.read_bytes(), rng))
        with suppress(IndexFileError):
            Index.load(path).match(PREDICATES[2])


def fuzz_engine(rng: Random) -> None:
    """Change and ask the native engine, and compare it with the one in Python."""
    engines = [Index(engine="native"), Index(engine="python")]
    names = [f"n{number}" for number in range(rng.choice((2, 5, 40)))]
    keys = rng.sample(range(1 << 62), 200)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(300):
            key, predicate = rng.choice(keys), _predicate(rng, names)
            is_there = key in engines[1]
            match rng.randrange(10):
                case 0 | 1 | 2 | 3 | 4 if not is_there:
                    for engine in engines:
                        engine.add(key, predicate)
                case 5 if is_there:
                    for engine in engines:
                        engine.remove(key)
                case 6 if rng.random() < 0.05:
                    engines[0].save(Path(folder) / "index")
                    engines[0] = Index.load(Path(folder) / "index", engine="native")
                case 7:
                    native, python = (sorted(e.covered_by(predicate)) for e in engines)
                    assert native == python
                case _:
                    native, python = (sorted(e.match(predicate)) for e in engines)
                    assert native == python


def fuzz_codec(rng: Random) -> None:
    """Decode mutated blocks natively, encode what comes out, and compare with Python."""
    for _ in range(50):
        data = mutated(encode_in_python(_value(rng, 4)), rng)
        limits = DEPTH_MAX, rng.choice((3, ITEM_COUNT_MAX))
        try:
            value = decode_in_python(data, limits[1])
        except EncodingError:
            value = None
        try:
            natively = native.decode_cbor(data, Link, *limits)
        except ValueError:
            natively = None
        assert repr(natively) == repr(value), data.hex()
        if natively is not None:
            assert native.encode_cbor(value, Link) == data


def _value(rng: Random, depth: int) -> Any:
    if depth and rng.random() < 0.6:
        items = [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
        return items if rng.random() < 0.5 else {str(rng.randrange(300)): each for each in items}
    number = rng.choice((0, 23, 24, 255, 256, 1 << 16, 1 << 32, (1 << 64) - 1))
    few = rng.randbytes(rng.choice((0, 1, 30, 300)))
    return rng.choice((number, -1 - number, few, few.hex(), Link(few), 0.5, True, None))


def _predicate(rng: Random, names: list[str]) -> Predicate:
    attributes: dict[str, Any] = {}
    for name in rng.sample(names, rng.randint(1, min(5, len(names)))):
        low = rng.choice((-1e308, -0.0, 0, 1, 2**53 + 1, 5e-324))
        values = (True, low, (low, rng.choice((low, 1e308, None))), (None, low))
        attributes[name] = rng.choice(values)
    with suppress(SmartPubSubError):
        return Predicate.of(attributes)
    return PREDICATES[0]


NATIVE_TARGETS: dict[str, Callable[[Random], Any]] = {
    "indexes": fuzz_indexes,
    "engine": fuzz_engine,
    "codec": fuzz_codec,
}
