"""CAR files on any file system that Spark reaches: their blocks as a DataFrame, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from smartpubsub.pipeline.archive_schemas import BLOCKS
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.folders import Folder, file_errors, file_system_of, matching
from smartpubsub.pipeline.local_inputs import empty_text, is_hidden, missing_text
from smartpubsub.protocols.blocks import Cid, cid_text, is_cid
from smartpubsub.protocols.car import CarError, Section, read_sections, write_car

ENDING = ".car"
WHAT = "CAR files, as smartpubsub topic export writes them"
BATCH_BYTES = 4 << 20
TASKS_MAX = 10_000

_CHANGED = "it does not match its content id"
_FOREIGN = "its content id is of an unsupported kind; only dag-cbor with SHA-256 is supported"

Batches = Iterator[pa.RecordBatch]


def find_cars(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """The full paths of CAR files by name, including those in folders."""
    found: dict[str, str] = {}
    for path in paths:
        places = matching(spark, path)
        if not places:
            raise PipelineError(missing_text(path, WHAT))
        files = [file for place in places for file in _cars_in(place)]
        if not files:
            raise PipelineError(empty_text(path, WHAT))
        for name, full in files:
            if found.setdefault(name, full) != full:
                raise PipelineError(
                    f"{path}: there are two files called {name!r}; rename one, or archive them"
                    " one after the other"
                )
    return dict(sorted(found.items()))


def _cars_in(place: Folder) -> Iterator[tuple[str, str]]:
    for full in place.files():
        name = full.removeprefix(place.full_path).strip("/")
        if not name:  # A file that was given explicitly counts, whatever its name.
            yield full.rsplit("/", 1)[-1], full
        elif name.endswith(ENDING) and not any(map(is_hidden, name.split("/"))):
            yield name.replace("/", ":"), full


def read_blocks(spark: SparkSession, cars: Mapping[str, str]) -> DataFrame:
    """All blocks of CAR files, each checked against its content id.

    One task reads a file, with the memory of a few blocks; a file that is not a CAR file is an
    error.
    """
    names, paths = [*cars], [*cars.values()]
    numbers = spark.range(0, len(paths), 1, min(len(paths), TASKS_MAX))
    return numbers.mapInArrow(_reader(names, paths), BLOCKS.schema)


def _reader(names: Sequence[str], paths: Sequence[str]) -> Callable[[Batches], Batches]:
    def read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with _opened(paths[number]) as file:
                    yield from _batches(_rows(file, names[number], paths[number]))

    return read


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with file_errors(path):
        system, inner = file_system_of(path)
        file = system.open_input_stream(inner, compression=None, buffer_size=BATCH_BYTES)
    with file:
        yield file


def _rows(file: BinaryIO, name: str, path: str) -> Iterator[dict[str, object]]:
    position = -1
    try:
        _, sections = read_sections(file)
    except CarError as error:
        raise PipelineError(f"{path.removeprefix('file:')}: {error}; give {WHAT}") from None
    try:
        for position, section in enumerate(sections):
            yield {"source": name, "position": position, **_judged(section)}
    except CarError as error:
        # The start of the next block is unknown, so the rest of the file is lost.
        yield {"source": name, "position": position + 1, "reason": str(error)}


def _judged(section: Section) -> dict[str, object]:
    cid, block = section
    if not is_cid(cid):
        return {"block": cid + block, "reason": _FOREIGN}
    reason = None if section.is_true else _CHANGED
    return {"cid": cid_text(cid), "block": block, "reason": reason}


def _batches(rows: Iterable[dict[str, object]]) -> Batches:
    schema = to_arrow_schema(BLOCKS.schema)
    batch: list[dict[str, object]] = []
    size = 0
    for row in rows:
        batch.append(row)
        block = row.get("block")
        size += 100 + (len(block) if isinstance(block, bytes) else 0)
        if size >= BATCH_BYTES:
            yield pa.RecordBatch.from_pylist(batch, schema)
            batch, size = [], 0
    yield pa.RecordBatch.from_pylist(batch, schema)


def write_car_file(
    spark: SparkSession, path: str, roots: Sequence[Cid], blocks: Iterable[bytes]
) -> int:
    """Write a CAR file, which appears only when complete; return the number of blocks."""
    with plain_errors():
        place = Folder(spark, path)
    system, inner = file_system_of(place.full_path)
    folder, _, name = inner.rpartition("/")
    new = f"{folder}/.{name}.new"
    try:
        with system.open_output_stream(new) as file:
            count = write_car(file, roots, blocks)
        system.move(new, inner)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror or error}; choose another file") from None
    return count
