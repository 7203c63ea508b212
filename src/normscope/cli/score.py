"""`normscope score`: say of each image how surprising it is."""

import csv
import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from normscope.cli.ending import SOME_UNREADABLE, one_line_errors
from normscope.cli.opening import import_all, open_model
from normscope.cli.options import Debug, Device, Json, ModelFile, OtherRate
from normscope.cli.output import plural, print_json, print_json_list, say
from normscope.cli.progress import bars
from normscope.cli.targets import check_writable
from normscope.errors import ImageFolderError, NormscopeError
from normscope.files import write_lines, write_text
from normscope.images.folder import check_path, obstacle, scan
from normscope.images.notation import cell, printable
from normscope.images.outcome import Kind
from normscope.images.outcomes import Outcomes
from normscope.rows import Rows

if TYPE_CHECKING:
    from normscope.model import Model, Row, Scored

    Follower = Callable[[Path, Scored], None]  # is given each file as it is scored

COLUMNS = ("path", "score", "p_value", "p_estimate", "anomalous", "error")
MOST_SHOWN = 10  # where all rows are in a file


def score(
    model: ModelFile,
    paths: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")] = None,
    false_alarm_rate: OtherRate = None,
    heatmaps: Annotated[Path | None, typer.Option(help="Write a heat map of each image into this folder.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    device: Device = "auto",
    engine: Annotated[
        Literal["auto", "eager", "onnx", "openvino"],
        typer.Option(help="What computes: eager is PyTorch, auto the fastest where there are many images."),
    ] = "auto",
    on: Annotated[
        Literal["local", "ray"], typer.Option(help="Where to score: local, or ray, as tasks of a Ray cluster.")
    ] = "local",
    parquet: Annotated[
        Path | None, typer.Option(help="With --on ray: folder of Parquet files for the rows; those it has are kept.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score images: one row for each file, the most surprising first on the screen, in order in CSV and JSON.

    A p-value comes with a promise, and is never below 1/(number of calibration images + 1). Where no calibration image
    scored as high there is also an estimate, p_estimate (p ~ on the screen), of which nothing is promised.
    """
    with one_line_errors(debug), ExitStack() as ending:
        for file in (csv_file, report):
            if file:
                check_writable(file)
        if on == "ray" or parquet:
            others = (csv_file, heatmaps, report, None if engine == "auto" else engine)
            score_on_cluster(on, model, paths, false_alarm_rate, parquet, others, json)
            return
        fitted, wanted = open_model(model, device, false_alarm_rate), look_through(paths)
        rows = Rows(wanted)
        from normscope.export.engine import with_engine

        fitted = with_engine(fitted, model, len(wanted), engine, say)
        followers = [follow_with_heat_maps(heatmaps, fitted, paths, ending)] if heatmaps else []
        followers += [follow_with_report(report, model, fitted, len(wanted), ending)] if report else []
        try:
            score_all(fitted, wanted, rows, followers)
        finally:  # interrupted, what there is so far is kept
            if csv_file and rows:
                save_rows(csv_file, rows)
        if json:
            print_json_list(rows)
        else:
            print_rows(rows, MOST_SHOWN if csv_file else None)
        say_promise(fitted)
        say_drift(fitted, rows)
        unreadable = sum(row["error"] is not None for row in rows)
        conclude(len(rows), sum(bool(row["anomalous"]) for row in rows), unreadable)


def conclude(images: int, anomalous: int, unreadable: int) -> None:
    say(f"{plural(images, 'image')}, {anomalous} anomalous, {unreadable} could not be read")
    if unreadable:
        raise typer.Exit(SOME_UNREADABLE)


def score_on_cluster(
    on: str,
    model: Path,
    paths: Sequence[Path],
    rate: float | None,
    parquet: Path | None,
    others: Sequence[object],
    json: bool,
) -> None:
    """Rows go to Parquet files alone: there may be more of them than one machine can hold."""
    import_all()
    from normscope.cluster.ray_score import Job, score_files

    if on != "ray" or parquet is None or any(others):
        raise NormscopeError(
            "--on ray goes with --parquet FOLDER, and without --csv, --heatmaps, --report and --engine"
        )
    files, total = look_through(paths), Counter[str]()
    with bars() as observer:
        for tally in score_files(Job(model, rate, parquet), files):
            total.update(tally._asdict())
            observer.images("scoring", total["images"], len(files))
    if json:
        print_json({"parquet": str(parquet), **total})
    say(f"wrote {plural(total['images'], 'row')} to {printable(parquet)}")
    conclude(total["images"], total["anomalous"], total["unreadable"])


def follow_with_heat_maps(folder: Path, model: "Model", paths: Sequence[Path], ending: ExitStack) -> "Follower":
    """Writes a picture of each image, and in the end says how many."""
    from normscope.report.overlays import Overlays

    overlays = Overlays(folder)
    overlays.prepare(model, paths)

    def end() -> None:
        if overlays.written:
            say(f"wrote {plural(overlays.written, 'heat map')} to {printable(folder)}")
        for one in overlays.failed:
            say(f"note: no heat map of {printable(one.path)} ({one.reason})")

    ending.callback(end)
    return overlays.add


def follow_with_report(path: Path, file: Path, model: "Model", expected: int, ending: ExitStack) -> "Follower":
    """Gathers what the report needs, and in the end writes it: also of what there is when scoring is interrupted."""
    from normscope.export.exported import checksum_of
    from normscope.report.gathering import Gathering
    from normscope.report.page import page

    gathering, checksum = Gathering(expected), checksum_of(file)

    def end() -> None:
        if gathering.rows:
            write_text(path, page(gathering, model, printable(file), checksum, datetime.now()))
            say(f"wrote the report to {printable(path)}")

    ending.callback(end)
    return gathering.add


def look_through(paths: Sequence[Path]) -> Outcomes:
    """Every file to be scored, in order; at least one."""
    if all(obstacle(path) for path in paths):
        check_path(paths[0])
    found = [scan(path) for path in paths]
    wanted = Outcomes(one for some in found for one in some if one.kind is not Kind.IGNORED)
    if not wanted:
        raise ImageFolderError("no image was found in what was given; `normscope doctor FOLDER` says why")
    if ignored := sum(map(len, found)) - len(wanted):
        say(f"{plural(ignored, 'file')} ignored as no images")
    return wanted


def score_all(model: "Model", wanted: Outcomes, rows: Rows, followers: "Sequence[Follower]" = ()) -> None:
    """Appends a row for each file, so that they are there if something interrupts; `followers` are given each."""
    from normscope.model import Scored

    with_heat = bool(followers) and model.method.scaled_heat
    scored = model.scored((one.path for one in wanted if one.kind is Kind.IMAGE), with_heat=with_heat)
    with bars() as observer:
        for one in wanted:
            found = next(scored) if one.kind is Kind.IMAGE else Scored(model.row(one.path, one.reason), None)
            rows.append(found.row)
            for follow in followers:
                follow(one.path, found)
            observer.images("scoring", len(rows), len(wanted))


def save_rows(path: Path, rows: "Sequence[Row]") -> None:
    """To the file or, if it cannot be written, to standard output, so that none is lost."""
    try:
        write_lines(path, as_csv(rows))
    except OSError as error:
        for line in as_csv(rows):
            print(line, end="")
        raise NormscopeError(
            f"{printable(path)} cannot be written ({error.strerror}): none of {plural(len(rows), 'row')} is in it, all "
            "are on standard output"
        ) from error
    say(f"wrote {plural(len(rows), 'row')} to {printable(path)}")


def as_csv(rows: "Sequence[Row]") -> Iterator[str]:
    """Line by line."""
    # All text is quoted, lest a spreadsheet divide it at a separator of its own and find a formula behind that.
    writer = csv.DictWriter(Returned(), COLUMNS, quoting=csv.QUOTE_NONNUMERIC)
    yield writer.writeheader()
    for row in rows:
        yield writer.writerow({**row, "path": cell(row["path"]), "error": cell(row["error"] or "")})


class Returned:
    """A file that gives back what is written to it: what a `csv.writer` then returns."""

    def write(self, text: str) -> str:
        return text


def say_promise(model: "Model") -> None:
    if model.calibration:
        say(model.calibration.promise)
        if model.calibration.note:
            say(f"note: {model.calibration.note}")


def say_drift(model: "Model", rows: "Sequence[Row]") -> None:
    """Whether these images, in order, are like those of calibration."""
    from normscope.drift import begin, carried_on

    if model.calibration:
        scores = array("d", (row["score"] for row in rows if row["score"] is not None))
        drift = carried_on(begin(model.calibration), scores)
        if drift.message:
            say(f"note: {drift.message}")


def print_rows(rows: "Sequence[Row]", most: int | None = None) -> None:
    """The most surprising first, files that could not be read last; at most so many."""
    shown = len(rows) if most is None else min(most, len(rows))
    for position in heapq.nsmallest(shown, range(len(rows)), key=lambda position: rank(rows[position])):
        row = rows[position]
        if row["error"] is not None:
            print(f"{'unreadable':>10}  {'':>10}  {'':>9}  {row['path']}: {row['error']}")
            continue
        verdict = {True: "anomalous", False: "normal", None: ""}[row["anomalous"]]
        print(f"{verdict:>10}  {row['score']:10.4g}  {p_shown(row):>9}  {row['path']}")
    if len(rows) > shown:
        print(f"… and {plural(len(rows) - shown, 'other image')}")


def rank(row: "Row") -> float:
    return math.inf if row["score"] is None else -row["score"]


def p_shown(row: "Row") -> str:
    """The estimate in the tail, the p-value elsewhere."""
    p_value, estimate = row["p_value"], row["p_estimate"]
    if p_value is None:
        return ""
    return f"p {p_value:.3f}" if estimate in (None, p_value) else f"p ~{estimate:.1g}"
