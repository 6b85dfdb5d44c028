"""What workers do with one shard: look what is in it, or infer the cost of its steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import StepCosts
from rci.engines.engine import Progress
from rci.formats.importing.imported import optional
from rci.formats.tables.mapping import ColumnNames
from rci.formats.tables.parquet import parquet_batches, parquet_rows, parquet_schema
from rci.pipeline.stored_job import Kept
from rci.shards.chunks import Chunk, chunks_of, filled, row_costs
from rci.shards.listing import (
    FACTS,
    KEY,
    Survey,
    check_new,
    digest,
    kept_facts,
    made_by,
    new_columns,
    read_survey,
    shard_key,
    survey,
)
from rci.shards.remote_file import File, file_state, reading, write_small, writing

GROUP_ROWS, GROUP_BYTES = 1 << 16, 1 << 25  # of a row group that is written
# Fixed, and without a time: the same rows are the same bytes, whoever writes them.
WRITING: dict[str, Any] = {"version": "2.6", "compression": "snappy", "use_dictionary": True}


@dataclass(frozen=True)
class SurveyWork:
    """Find out which episodes a shard has, and keep it in the file `out`."""

    shard: File
    out: File
    names: ColumnNames

    def done(self) -> Survey | None:
        """What was found, if it was and the shard is still the same."""
        return read_survey(self.out, self.shard, self._made_by())

    def run(self, progress: Progress) -> None:
        """Do it, unless it is done."""
        if self.done() is None:
            write_small(self.out, survey(self.shard, self.names).save(self._made_by()))

    def _made_by(self) -> str:
        return digest([made_by(), repr(self.names)])


@dataclass(frozen=True)
class ShardWork:
    """Write a shard with the costs of its steps to the file `out`."""

    shard: File
    out: File
    names: ColumnNames
    models: Path | Kept  # fitted step costs
    models_hash: str
    pessimism: float
    prefix: str  # of the names of new columns
    content: str  # sha256 of the shard
    state: tuple[int, int]  # its size and time when that was computed
    made_by: str  # code and packages of who began the run

    @property
    def key(self) -> str:
        """Stands for everything that the output is made from."""
        settings = {"pessimism": self.pessimism, "prefix": self.prefix}
        return shard_key(self.content, self.models_hash, self.names, settings)

    def done(self) -> dict[str, Any] | None:
        """The facts in the output, if it is there."""
        return kept_facts(self.out, self.key)

    def run(self, progress: Progress) -> None:
        """Do it, unless it is done."""
        if self.made_by != made_by():
            raise RciError(
                "this worker has other code or packages than the run was begun with; install the same."
            )
        if self.done() is not None:
            return
        models = _models(self.models, self.models_hash)
        facts = {"shard": self.shard.name, "method": models.method, "models": self.models_hash}
        with writing(self.out) as temporary:
            with reading(self.shard) as shard:
                self._write(shard, temporary, models, facts, progress)
            if file_state(self.shard) != self.state:
                raise RciError(f"{self.shard} was changed while the run went on; start it again.")

    def _write(
        self, shard: Path, path: Path, models: StepCosts, facts: dict[str, Any], progress: Progress
    ) -> None:
        parquet = optional("pyarrow.parquet", "pyarrow")
        schema, total = parquet_schema(shard), parquet_rows(shard)
        check_new(shard, schema.names, self.names, self.prefix)  # this one may differ from the first
        metadata = dict(schema.metadata or {})
        counts = {"episodes": 0, "steps": 0, "stopped": 0}
        columns, source = new_columns(self.names, self.prefix), _Rows(shard)
        arrow = optional("pyarrow", "pyarrow")
        types = {"cost": arrow.float64(), "cost_sparse": arrow.float64(), "stopped": arrow.bool_()}
        for name, which in columns.items():
            schema = schema.append(arrow.field(name, types[which]))
        written = 0
        with parquet.ParquetWriter(path, schema.remove_metadata(), **WRITING) as writer:
            waiting: list[Any] = []
            for chunk in chunks_of(shard, self.names) if total else ():  # an empty shard stays one
                made = row_costs(chunk, _costs(models, chunk, self.pessimism))
                table = source.take(int(chunk.rows.sum()))
                for name, which in columns.items():
                    values, missing = made[which]
                    table = table.append_column(name, arrow.array(values, mask=missing))
                waiting.append(table.cast(schema.remove_metadata()))
                counts["episodes"] += len(chunk.lengths)
                counts["steps"] += int(chunk.kept.sum())
                counts["stopped"] += int((chunk.stop_index >= 0).sum())
                written += len(table)
                if _large(waiting):
                    writer.write_table(arrow.concat_tables(waiting), row_group_size=GROUP_ROWS)
                    waiting = []
                progress(min(0.999, written / total))
            if waiting:
                writer.write_table(arrow.concat_tables(waiting), row_group_size=GROUP_ROWS)
            counted = json.dumps({**facts, **counts}, sort_keys=True)
            writer.add_key_value_metadata({**metadata, KEY: self.key.encode(), FACTS: counted.encode()})


class _Rows:
    """The rows of a shard as they are, a number of them at a time."""

    def __init__(self, shard: Path) -> None:
        self.batches, self.left = parquet_batches(shard), list[Any]()

    def take(self, count: int) -> Any:
        """The next rows as a table."""
        arrow, taken = optional("pyarrow", "pyarrow"), []
        while count:
            batch = self.left.pop() if self.left else next(self.batches)
            taken.append(batch[:count])
            if len(batch) > count:
                self.left.append(batch[count:])
            count -= len(taken[-1])
        return arrow.Table.from_batches(taken)


def _large(tables: list[Any]) -> bool:
    return sum(map(len, tables)) >= GROUP_ROWS or sum(table.nbytes for table in tables) >= GROUP_BYTES


def _costs(models: StepCosts, chunk: Chunk, pessimism: float) -> Any:
    """One cost for each kept step of a chunk."""
    from rci.redistribution import transfer

    whole = filled(chunk)
    episodes = whole.episodes
    return transfer(models, episodes, whole.labels(episodes), pessimism).cost[: int(chunk.kept.sum())]


@cache
def _models(place: Path | Kept, content: str) -> StepCosts:
    """Read and verified once per process."""
    found: StepCosts = store.read(place if isinstance(place, Path) else place.here(), "costs")
    if found.hash != content:
        raise RciError(f"{place} was changed while the run went on; start it again.")
    return found
