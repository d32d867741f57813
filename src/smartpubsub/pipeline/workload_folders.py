"""Folders that hold the tables of a workload, one folder for each."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from smartpubsub.pipeline.errors import plain_errors
from smartpubsub.pipeline.folders import Folder, require
from smartpubsub.pipeline.outputs import PARQUET, Output
from smartpubsub.pipeline.schemas import ACTIONS, EVENTS, NODES, SUBSCRIPTIONS, Table
from smartpubsub.pipeline.tables import check_output, read_table
from smartpubsub.pipeline.workload_tables import tables_of, workload_of
from smartpubsub.workloads.actions import Workload

ROWS_AT_ONCE = 500_000
"""The number of rows handed to Spark at once."""
ALWAYS_THERE = (EVENTS, SUBSCRIPTIONS)
MAYBE_THERE = (NODES, ACTIONS)


def folder_of(folder: str, table: Table) -> str:
    """The folder of a table of a workload."""
    return f"{folder.rstrip('/')}/{table.name}"


def check_workload_output(spark: SparkSession, folder: str) -> None:
    """Raise an error if writing a workload here would destroy something else."""
    for table in (*ALWAYS_THERE, *MAYBE_THERE):
        check_output(spark, folder_of(folder, table))


def write_workload_folder(
    spark: SparkSession, workload: Workload, folder: str, output: Output = PARQUET
) -> dict[str, int]:
    """Write a workload's tables; return the number of rows of each."""
    tables = tables_of(workload)
    for table in (*ALWAYS_THERE, *MAYBE_THERE):
        _write_in_pieces(spark, tables[table.name], folder_of(folder, table), table, output)
    return {table.name: len(tables[table.name]) for table in ALWAYS_THERE}


def read_workload_folder(spark: SparkSession, folder: str) -> Workload:
    """Read the tables that lie in a folder as a workload."""
    require(Folder(spark, folder), "a workload file, or a folder with the tables of a workload")
    tables = {}
    for table in (*ALWAYS_THERE, *MAYBE_THERE):
        path = folder_of(folder, table)
        if table in ALWAYS_THERE or Folder(spark, path).exists():
            tables[table.name] = collected(read_table(spark, path, table))
    return workload_of(tables)


def collected(frame: DataFrame) -> pa.Table:
    """All rows of a DataFrame."""
    with plain_errors():
        return frame.toArrow()


def _write_in_pieces(
    spark: SparkSession, rows: pa.Table, path: str, table: Table, output: Output
) -> None:
    for piece, start in enumerate(range(0, max(len(rows), 1), ROWS_AT_ONCE)):
        with plain_errors():
            frame = spark.createDataFrame(rows.slice(start, ROWS_AT_ONCE), schema=table.schema)
        output.write(frame, path, table, piece=piece, is_more=piece > 0)
