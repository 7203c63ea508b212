"""Score files on a Ray cluster, a part at a time: a task reads some files, scores them and writes one Parquet file.

Plain tasks and not Ray Data: a part that is there need not be scored again, rows stay in the order of the files, and
images are read by the same code as everywhere.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from normscope.cluster.connection import connected, slots
from normscope.errors import ClusterError
from normscope.files import write_atomically, write_text
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome

if TYPE_CHECKING:
    from normscope.model import Model, Row

FILES_IN_A_PART = 1024
LOST_AT_MOST = 5  # times that a part is begun anew because its machine was lost
MANIFEST = "parts.json"


class Tally(NamedTuple):
    """Of a part, or of several together."""

    images: int
    anomalous: int
    unreadable: int


class Job(NamedTuple):
    """What every part of a run has in common."""

    model: Path
    rate: float | None
    folder: Path


def score_files(job: Job, files: Sequence[FileOutcome], in_a_part: int = FILES_IN_A_PART) -> Iterator[Tally]:
    """Yields the tally of each part, in order, once it is written. Parts that the folder already has are read."""
    job = Job(job.model.absolute(), job.rate, job.folder.absolute())
    starts = range(0, len(files), in_a_part)
    prepare(job, files, in_a_part)
    missing = [start for start in starts if not part_file(job.folder, start // in_a_part).exists()]
    with connected():
        import ray

        task = ray.remote(num_cpus=1, max_retries=LOST_AT_MOST)(score_part)
        waiting, most = dict[int, object](), 4 * slots(1)
        todo = iter(missing)
        for start in starts:
            while len(waiting) < most and (other := next(todo, None)) is not None:
                some = [(one.path.absolute(), one.path, one.reason) for one in files[other : other + in_a_part]]
                waiting[other] = task.remote(job, other // in_a_part, some)
            if start in waiting:
                yield ray.get(waiting.pop(start))
            else:
                yield tally(part_file(job.folder, start // in_a_part))


def prepare(job: Job, files: Sequence[FileOutcome], in_a_part: int) -> None:
    """Makes the folder, or checks that it is of the same run."""
    from normscope.export.exported import checksum_of

    run = {"model": checksum_of(job.model), "files": checksum_of_names(files), "in_a_part": in_a_part, "rate": job.rate}
    job.folder.mkdir(parents=True, exist_ok=True)
    manifest = job.folder / MANIFEST
    if not manifest.exists():
        if any(job.folder.glob("part-*.parquet")):
            raise ClusterError(f"{job.folder} has parts of unknown origin; write to another folder")
        write_text(manifest, json.dumps(run))
    elif json.loads(manifest.read_text()) != run:
        raise ClusterError(f"{job.folder} has parts of another run (model, files or rate); write to another folder")


def checksum_of_names(files: Sequence[FileOutcome]) -> str:
    digest = hashlib.sha256()
    for position, one in enumerate(files):
        digest.update(("\0" * bool(position) + str(one.path)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def part_file(folder: Path, number: int) -> Path:
    return folder / f"part-{number:06}.parquet"


def score_part(job: Job, number: int, files: Sequence[tuple[Path, Path, str]]) -> Tally:
    """The task. Files come as where they are, how the user named them, and why they cannot be read ("" if they can)."""
    import torch

    torch.set_num_threads(1)
    model = opened(job.model, job.rate)
    found = model.rows([path for path, _, reason in files if not reason])
    rows = [model.row(named, reason) if reason else renamed(next(found), named) for _, named, reason in files]
    path = part_file(job.folder, number)
    write_atomically(path, parquet(rows))
    return tally_of(rows)


def renamed(row: "Row", path: Path) -> "Row":
    return {**row, "path": printable(path)}


@cache
def opened(path: Path, rate: float | None) -> "Model":
    """Once in each process."""
    from normscope.export.exported import open_model

    model = open_model(path)
    return model if rate is None else model.at(rate)


def parquet(rows: "Sequence[Row]") -> bytes:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    schema = pa.schema(
        {
            "path": pa.string(),
            "score": pa.float64(),
            "p_value": pa.float64(),
            "p_estimate": pa.float64(),
            "anomalous": pa.bool_(),
            "error": pa.string(),
        }
    )
    buffer = pa.BufferOutputStream()
    write_table(pa.Table.from_pylist(list(rows), schema), buffer)
    return buffer.getvalue().to_pybytes()


def tally(path: Path) -> Tally:
    from pyarrow.parquet import read_table

    return tally_of(read_table(path).to_pylist())


def tally_of(rows: "Sequence[Row]") -> Tally:
    return Tally(len(rows), sum(bool(row["anomalous"]) for row in rows), sum(row["error"] is not None for row in rows))
