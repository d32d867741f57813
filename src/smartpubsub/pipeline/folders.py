"""Folders on any file system that Spark reaches, through its Hadoop library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from smartpubsub.pipeline.errors import PipelineError, told_plainly
from smartpubsub.pipeline.local_inputs import has_wildcards, is_hidden, missing_text


class File(NamedTuple):
    """A file, when its folder was read."""

    path: str
    """With the scheme of the file system."""
    bytes: int
    modified_ms: int


class Folder:
    """A path on any file system: `tables/events`, `hdfs://host/tables/events`."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        with told_plainly():
            self._hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
            configuration = spark.sparkContext._jsc.hadoopConfiguration()
            self._file_system = self._hadoop_path.getFileSystem(configuration)
            self.full_path = str(self._file_system.makeQualified(self._hadoop_path).toString())

    def exists(self) -> bool:
        """Whether a folder or a file exists."""
        with told_plainly():
            return bool(self._file_system.exists(self._hadoop_path))

    def names(self) -> list[str]:
        """The entries of the folder."""
        with told_plainly():
            found = self._file_system.listStatus(self._hadoop_path)
        return sorted(str(status.getPath().getName()) for status in found)

    def alike(self) -> list[Folder]:
        """Expand `*`, `?`, `[...]` and `{...}` in the path."""
        with told_plainly():
            found = self._file_system.globStatus(self._hadoop_path) or []
        return [Folder(self._spark, str(status.getPath().toString())) for status in found]

    def all(self) -> Iterator[File]:
        """All files in the folder and below it, or the file itself."""
        with told_plainly():
            found = self._file_system.listFiles(self._hadoop_path, True)
            while found.hasNext():
                file = found.next()
                path = str(file.getPath().toString())
                yield File(path, int(file.getLen()), int(file.getModificationTime()))

    def files(self) -> Iterator[str]:
        """The full paths of all files in the folder and below it, or of the file itself."""
        return (file.path for file in self.all())

    def bytes(self) -> int:
        """The size of all files in the folder and below it, or of the file itself; 0 for none."""
        if not self.exists():
            return 0
        with told_plainly():
            return int(self._file_system.getContentSummary(self._hadoop_path).getLength())

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

    def delete(self) -> None:
        """Remove it with its content, if it exists."""
        with told_plainly():
            self._file_system.delete(self._hadoop_path, True)

    def below(self, name: str) -> Folder:
        """The entry with this name in the folder."""
        return Folder(self._spark, f"{self.path.rstrip('/')}/{name}")

    def take(self, file: Path) -> None:
        """Copy a local file to it."""
        with told_plainly():
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(
                self._jvm.java.io.File(str(file.absolute())),
                self._file_system,
                self._hadoop_path,
                False,
                self._file_system.getConf(),
            )

    def read_text(self) -> str:
        """Read a small file."""
        with told_plainly():
            stream = self._file_system.open(self._hadoop_path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, text: str) -> None:
        """Write a small file."""
        with told_plainly():
            stream = self._file_system.create(self._hadoop_path)
            try:
                stream.write(text.encode())
            finally:
                stream.close()


def file_system_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a full path as Spark writes it, and the path there, without Spark.

    >>> file_system_of("file:/a folder/b%20c")[1]
    '/a folder/b%20c'
    """
    if path.startswith("file:"):
        # It is no URI: blanks and percent signs stand for themselves.
        return fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    system, inner = fs.FileSystem.from_uri(path)
    return system, inner


def open_file(path: str) -> pa.NativeFile:
    """Open a file by its full path, without Spark."""
    system, inner = file_system_of(path)
    return system.open_input_file(inner)


def matching(spark: SparkSession, path: str) -> list[Folder]:
    """The entries that a path with wildcards matches."""
    place = Folder(spark, path)
    if place.exists() or not has_wildcards(path):
        return [place] if place.exists() else []
    return place.alike()


def require(folder: Folder, what: str) -> None:
    """Raise an error if nothing exists at this path."""
    if not folder.exists():
        raise PipelineError(missing_text(folder.path, what))
