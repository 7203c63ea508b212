"""`normscope score`: say of each image how surprising it is."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.output import SOME_UNREADABLE, Debug, Json, one_line_errors, print_json, say
from normscope.errors import ImageFolderError
from normscope.files import write_atomically

if TYPE_CHECKING:
    from normscope.detector import Row

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
        from normscope.detector import load
        from normscope.intake import expand

        detector = load(model, device=device)
        files, skipped = expand(paths)
        not_images = [one for one in skipped if one.reason == "hidden" or one.reason.startswith("not an image")]
        broken = [detector.row(one.path, one.reason) for one in skipped if one not in not_images]
        rows = [*detector.rows(files), *broken]
        if not rows:
            raise ImageFolderError("no image was found in what was given; `normscope doctor FOLDER` says why")
        if not_images:
            say(f"{len(not_images)} files that are no images were passed over")
        if csv_file:
            write_csv(csv_file, rows)
        if json:
            print_json(rows)
        elif not csv_file:
            print_rows(rows)
        unreadable = sum(row["error"] is not None for row in rows)
        flagged = sum(bool(row["anomalous"]) for row in rows)
        say(f"{len(rows)} images, {flagged} anomalous, {unreadable} could not be read")
    if unreadable:
        raise typer.Exit(SOME_UNREADABLE)


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
