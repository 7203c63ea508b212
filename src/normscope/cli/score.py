"""`normscope score`: say of each image how surprising it is."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.output import (
    SOME_UNREADABLE,
    Debug,
    Json,
    check_writable,
    import_all,
    one_line_errors,
    plural,
    print_json,
    say,
)
from normscope.cli.progress import bars
from normscope.errors import ImageFolderError
from normscope.files import write_atomically

if TYPE_CHECKING:
    from normscope.intake import Entry
    from normscope.model import Model, Row

COLUMNS = ("path", "score", "p_value", "anomalous", "error")


def score(
    model: Annotated[Path, typer.Argument(help="Model file that `normscope fit` wrote.")],
    paths: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score images: one row for each file, the most surprising first on the screen, in order in CSV and JSON."""
    with one_line_errors(debug):
        if csv_file:
            check_writable(csv_file)
        import_all()
        from normscope.model import load

        rows = score_all(load(model, device=device), look_through(paths))
        if csv_file:
            write_csv(csv_file, rows)
        if json:
            print_json(rows)
        elif not csv_file:
            print_rows(rows)
        unreadable = sum(row["error"] is not None for row in rows)
        flagged = sum(bool(row["anomalous"]) for row in rows)
        say(f"{plural(len(rows), 'image')}, {flagged} anomalous, {unreadable} could not be read")
        if csv_file:
            say(f"wrote {csv_file}")
        if unreadable:
            raise typer.Exit(SOME_UNREADABLE)


def look_through(paths: Sequence[Path]) -> "list[Entry]":
    """Every file to be scored, in order; at least one."""
    from normscope.intake import entries, passed_over

    if len(paths) > 1 and any(path.exists() for path in paths):
        found = [entry for path in paths for entry in entries(path)]
    else:
        found = entries(paths[0], must_exist=True)
    taken = [entry for entry in found if not passed_over(entry.reason or "")]
    if not taken:
        raise ImageFolderError("no image was found in what was given; `normscope doctor FOLDER` says why")
    if len(taken) < len(found):
        say(f"{plural(len(found) - len(taken), 'file')} passed over as no images")
    return taken


def score_all(model: "Model", wanted: "Sequence[Entry]") -> "list[Row]":
    scored = model.rows([entry.path for entry in wanted if entry.reason is None])
    rows: list[Row] = []
    with bars() as observer:
        for entry in wanted:
            rows.append(next(scored) if entry.reason is None else model.row(entry.path, entry.reason))
            observer.images("scoring", len(rows), len(wanted))
    return rows


def write_csv(path: Path, rows: "Sequence[Row]") -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode("utf-8"))


def print_rows(rows: "Sequence[Row]") -> None:
    """The most surprising first, files that could not be read last."""
    for row in sorted(rows, key=lambda row: (row["score"] is None, -(row["score"] or 0.0))):
        if row["error"] is not None:
            print(f"{'unreadable':>10}  {'':>10}  {'':>8}  {row['path']}: {row['error']}")
            continue
        verdict = {True: "anomalous", False: "normal", None: ""}[row["anomalous"]]
        p_value = "" if row["p_value"] is None else f"p {row['p_value']:.3f}"
        print(f"{verdict:>10}  {row['score']:10.4g}  {p_value:>8}  {row['path']}")
