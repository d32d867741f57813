"""Folders on any file system that Spark reaches, through its Hadoop library; or without it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession, is_remote

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.local_inputs import has_wildcards, is_elsewhere, is_hidden, missing_text

_LOCK_FILE = "_lock"
_NOT_ALLOWED = "change its permissions, or choose another place"
_FULL = "make room there, or choose another place"
_REMEDIES: Mapping[int | None, str] = {
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.ENOTDIR: "a part of the path is a file; choose another folder",
}


class File(NamedTuple):
    """A file, when its folder was read."""

    path: str
    """With the scheme of the file system."""
    bytes: int
    modified_ms: int


MaybeSpark: TypeAlias = SparkSession | None
"""A session, or None if none is needed: paths without a scheme are then on this machine."""


class DirectFiles:
    """Files that this process opens itself: without Spark, or as a client of Spark Connect."""

    def __init__(self, path: str) -> None:
        if is_elsewhere(path) and not path.startswith("file:"):
            self.full_path = path.rstrip("/")
        else:
            # Without `..`, so that paths can be compared.
            place = Path(path.removeprefix("file:")).absolute()
            self.full_path = f"file:{os.path.normpath(place)}"
        with file_errors(path):
            self.file_system, self.inner = file_system_of(self.full_path)
        self._prefix = self.full_path.removesuffix(self.inner.rstrip("/"))

    def exists(self) -> bool:
        """Whether a folder or a file exists."""
        return self._type is not fs.FileType.NotFound

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._type is fs.FileType.File

    @property
    def _type(self) -> fs.FileType:
        with file_errors(self.full_path):
            return self.file_system.get_file_info(self.inner).type

    def names(self) -> list[str]:
        """The entries of the folder."""
        with file_errors(self.full_path):
            found = self.file_system.get_file_info(fs.FileSelector(self.inner))
        return sorted(info.base_name for info in found)

    def all(self) -> Iterator[File]:
        """All files in the folder and below it, or the file itself."""
        with file_errors(self.full_path):
            if self._type is fs.FileType.Directory:
                selector = fs.FileSelector(self.inner, recursive=True)
                found = self.file_system.get_file_info(selector)
            else:
                found = [self.file_system.get_file_info(self.inner)]
        for info in sorted(found, key=lambda info: Path(info.path)):
            if info.type is fs.FileType.File:
                modified_ms = (info.mtime_ns or 0) // 1_000_000
                yield File(f"{self._prefix}{info.path}", info.size, modified_ms)

    def delete(self) -> None:
        """Remove it with its content, if it exists."""
        with file_errors(self.full_path):
            if self._type is fs.FileType.Directory:
                self.file_system.delete_dir(self.inner)
            elif self.exists():
                self.file_system.delete_file(self.inner)

    def read_text(self) -> str:
        """Read a small file."""
        with file_errors(self.full_path), self.file_system.open_input_stream(self.inner) as file:
            return bytes(file.read()).decode()

    def write_text(self, text: str) -> None:
        """Write a small file."""
        with file_errors(self.full_path):
            self._make_parent()
            with self.file_system.open_output_stream(self.inner) as file:
                file.write(text.encode())

    def take(self, file: Path) -> None:
        """Copy a local file to it."""
        with file_errors(self.full_path):
            self._make_parent()
            fs.copy_files(
                str(file.absolute()),
                self.inner,
                source_filesystem=fs.LocalFileSystem(),
                destination_filesystem=self.file_system,
            )

    def alike(self) -> list[str]:
        """Expand `*`, `?` and `[...]` in the path."""
        if not self.full_path.startswith("file:") or "{" in self.inner:
            raise PipelineError(
                f"{self.full_path}: without a Spark driver, patterns are of this machine and have"
                " no braces; give a folder"
            )
        found = Path("/").glob(self.inner.lstrip("/"))
        return sorted(f"file:{path}" for path in found)

    def _make_parent(self) -> None:
        self.file_system.create_dir(self.inner.rpartition("/")[0], recursive=True)


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turn errors of files into a line with the path and the remedy."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        number = error.errno if isinstance(error, OSError) else None
        [line, *_] = str(error).splitlines() or [type(error).__name__]
        reason = line if number is None else os.strerror(number)
        remedy = _REMEDIES.get(number, "check the path")
        raise PipelineError(f"{path.removeprefix('file:')}: {reason}; {remedy}") from None


class HadoopFiles:
    """Files on any file system that Spark's driver reaches."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.jvm = jvm
        with plain_errors():
            self.path = jvm.org.apache.hadoop.fs.Path(path)
            configuration = spark.sparkContext._jsc.hadoopConfiguration()
            self.file_system = self.path.getFileSystem(configuration)
            self.full_path = str(self.file_system.makeQualified(self.path).toString())

    def exists(self) -> bool:
        """Whether a folder or a file exists."""
        with plain_errors():
            return bool(self.file_system.exists(self.path))

    def is_file(self) -> bool:
        """Whether it is a file."""
        with plain_errors():
            return self.exists() and bool(self.file_system.getFileStatus(self.path).isFile())

    def names(self) -> list[str]:
        """The entries of the folder."""
        with plain_errors():
            found = self.file_system.listStatus(self.path)
        return sorted(str(status.getPath().getName()) for status in found)

    def all(self) -> Iterator[File]:
        """All files in the folder and below it, or the file itself."""
        with plain_errors():
            found = self.file_system.listFiles(self.path, True)
            while found.hasNext():
                file = found.next()
                path = str(file.getPath().toString())
                yield File(path, int(file.getLen()), int(file.getModificationTime()))

    def delete(self) -> None:
        """Remove it with its content, if it exists."""
        with plain_errors():
            self.file_system.delete(self.path, True)

    def read_text(self) -> str:
        """Read a small file."""
        with plain_errors():
            stream = self.file_system.open(self.path)
            try:
                return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, text: str) -> None:
        """Write a small file."""
        with plain_errors():
            stream = self.file_system.create(self.path)
            try:
                stream.write(text.encode())
            finally:
                stream.close()

    def take(self, file: Path) -> None:
        """Copy a local file to it."""
        with plain_errors():
            self.jvm.org.apache.hadoop.fs.FileUtil.copy(
                self.jvm.java.io.File(str(file.absolute())),
                self.file_system,
                self.path,
                False,
                self.file_system.getConf(),
            )

    def alike(self) -> list[str]:
        """Expand `*`, `?`, `[...]` and `{...}` in the path."""
        with plain_errors():
            found = self.file_system.globStatus(self.path) or []
        return [str(status.getPath().toString()) for status in found]


class Folder:
    """A path on any file system: `tables/events`, `hdfs://host/tables/events`."""

    def __init__(self, spark: MaybeSpark, path: str) -> None:
        self.path = path
        self._spark = spark
        files = DirectFiles(path) if spark is None or is_remote() else HadoopFiles(spark, path)
        self.full_path = files.full_path
        self.exists = files.exists
        self.is_file = files.is_file
        self.names = files.names
        # Listing through Java takes several calls for each file.
        self.all = DirectFiles(self.full_path).all if self.has_plain_files else files.all
        self.delete = files.delete
        self.read_text = files.read_text
        self.write_text = files.write_text
        self.take = files.take
        self._alike = files.alike

    def alike(self) -> list[Folder]:
        """Expand wildcards in the path."""
        return [Folder(self._spark, path) for path in self._alike()]

    def files(self) -> Iterator[str]:
        """The full paths of all files in the folder and below it, or of the file itself."""
        return (file.path for file in self.all())

    def bytes(self) -> int:
        """The size of all files in the folder and below it, or of the file itself; 0 for none."""
        return sum(file.bytes for file in self.all()) if self.exists() else 0

    def data(self) -> Iterator[File]:
        """The files that readers of tables do not ignore."""
        for file in self.all():
            if not any(map(is_hidden, file.path.removeprefix(self.full_path).split("/"))):
                yield file

    def data_files(self) -> Iterator[str]:
        """The full paths of the files that readers of tables do not ignore."""
        return (file.path for file in self.data())

    def has_files(self) -> bool:
        """Whether it has files that readers of tables do not ignore."""
        return self.exists() and any(True for _ in self.data_files())

    @property
    def has_plain_files(self) -> bool:
        """Whether tasks and the driver can open its files without Spark."""
        return self.full_path.startswith("file:")

    @property
    def local_path(self) -> Path:
        """The path of a folder with plain files."""
        return Path(self.full_path.removeprefix("file:"))

    def below(self, name: str) -> Folder:
        """The entry with this name in the folder."""
        return Folder(self._spark, f"{self.path.rstrip('/')}/{name}")


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a full path as Spark writes it, and the path there, without Spark.

    >>> file_system_of("file:/a folder/b%20c")[1]
    '/a folder/b%20c'
    """
    if path.startswith("file:"):
        # Such a path is no URI: it does not escape blanks and percent signs.
        return fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    system, inner = fs.FileSystem.from_uri(path)
    return system, inner


def open_file(path: str) -> pa.NativeFile:
    """Open a file by its full path, without Spark."""
    with file_errors(path):
        system, inner = file_system_of(path)
        return system.open_input_file(inner)


def matching(spark: SparkSession, path: str) -> list[Folder]:
    """The entries that a path with wildcards matches."""
    place = Folder(spark, path)
    if place.exists() or not has_wildcards(path):
        return [place] if place.exists() else []
    return place.alike()


@contextmanager
def locked(place: Path, what: str) -> Iterator[None]:
    """Lock a folder on this machine: two writers would take or delete each other's files.

    `what` names the writer. The lock ends with the process that has it. A folder that did not exist
    is removed again if nothing was written to it.
    """
    with file_errors(str(place)):
        is_new = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / _LOCK_FILE).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_taken = not os.fstat(lock.fileno()).st_nlink  # Its former owner removed it just now.
        except BlockingIOError:
            is_taken = True
        if is_taken:
            raise PipelineError(
                f"{place}: another {what} is running there; wait for it or choose another folder"
            )
        try:
            yield
        finally:
            (place / _LOCK_FILE).unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # Something is in it.
                    place.rmdir()


def require(folder: Folder, what: str) -> None:
    """Raise an error if nothing exists at this path."""
    if not folder.exists():
        raise PipelineError(missing_text(folder.path, what))
