"""Folders on any file system that Spark reaches, through its Hadoop library; or here without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

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


MaybeSpark: TypeAlias = SparkSession | None
"""A session, or None for what needs none: paths without a scheme are then on this machine."""


class LocalFiles:
    """Files of this machine, without Spark."""

    def __init__(self, path: str) -> None:
        # Without `..`, so that paths can be compared.
        self._path = Path(os.path.normpath(Path(path).absolute()))
        self.full_path = f"file:{self._path}"

    def exists(self) -> bool:
        """Whether a folder or a file exists."""
        return self._path.exists()

    def names(self) -> list[str]:
        """The entries of the folder."""
        return sorted(path.name for path in self._path.iterdir())

    def all(self) -> Iterator[File]:
        """All files in the folder and below it, or the file itself."""
        for path in sorted(self._path.rglob("*")) if self._path.is_dir() else [self._path]:
            if path.is_file():
                status = path.stat()
                yield File(f"file:{path}", status.st_size, status.st_mtime_ns // 1_000_000)

    def delete(self) -> None:
        """Remove it with its content, if it exists."""
        if self._path.is_dir():
            shutil.rmtree(self._path)
        else:
            self._path.unlink(missing_ok=True)

    def read_text(self) -> str:
        """Read a small file."""
        return self._path.read_text(encoding="utf-8")

    def write_text(self, text: str) -> None:
        """Write a small file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(text, encoding="utf-8")


class HadoopFiles:
    """Files on any file system that Spark reaches."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.jvm = jvm
        with told_plainly():
            self.path = jvm.org.apache.hadoop.fs.Path(path)
            configuration = spark.sparkContext._jsc.hadoopConfiguration()
            self.file_system = self.path.getFileSystem(configuration)
            self.full_path = str(self.file_system.makeQualified(self.path).toString())

    def exists(self) -> bool:
        """Whether a folder or a file exists."""
        with told_plainly():
            return bool(self.file_system.exists(self.path))

    def names(self) -> list[str]:
        """The entries of the folder."""
        with told_plainly():
            found = self.file_system.listStatus(self.path)
        return sorted(str(status.getPath().getName()) for status in found)

    def all(self) -> Iterator[File]:
        """All files in the folder and below it, or the file itself."""
        with told_plainly():
            found = self.file_system.listFiles(self.path, True)
            while found.hasNext():
                file = found.next()
                path = str(file.getPath().toString())
                yield File(path, int(file.getLen()), int(file.getModificationTime()))

    def delete(self) -> None:
        """Remove it with its content, if it exists."""
        with told_plainly():
            self.file_system.delete(self.path, True)

    def read_text(self) -> str:
        """Read a small file."""
        with told_plainly():
            stream = self.file_system.open(self.path)
            try:
                return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, text: str) -> None:
        """Write a small file."""
        with told_plainly():
            stream = self.file_system.create(self.path)
            try:
                stream.write(text.encode())
            finally:
                stream.close()


class Folder:
    """A path on any file system: `tables/events`, `hdfs://host/tables/events`."""

    def __init__(self, spark: MaybeSpark, path: str) -> None:
        self.path = path
        self._spark = spark
        self._files = LocalFiles(path) if spark is None else HadoopFiles(spark, path)
        self.full_path = self._files.full_path
        self.exists = self._files.exists
        self.names = self._files.names
        self.all = self._files.all
        self.delete = self._files.delete
        self.read_text = self._files.read_text
        self.write_text = self._files.write_text

    def alike(self) -> list[Folder]:
        """Expand `*`, `?`, `[...]` and `{...}` in the path."""
        assert isinstance(self._files, HadoopFiles)
        with told_plainly():
            found = self._files.file_system.globStatus(self._files.path) or []
        return [Folder(self._spark, str(status.getPath().toString())) for status in found]

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

    def take(self, file: Path) -> None:
        """Copy a local file to it."""
        assert isinstance(self._files, HadoopFiles)
        jvm, system = self._files.jvm, self._files.file_system
        with told_plainly():
            jvm.org.apache.hadoop.fs.FileUtil.copy(
                jvm.java.io.File(str(file.absolute())),
                system,
                self._files.path,
                False,
                system.getConf(),
            )


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
