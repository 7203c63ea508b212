"""`normscope score`: say of each image how surprising it is."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.output import SOME_UNREADABLE, Debug, Json, one_line_errors, print_json, say

if TYPE_CHECKING:
    from normscope.detector import Row

COLUMNS = ("path", "score", "p_value", "anomalous", "error")


def score(
    model: Annotated[Path, typer.Argument(help="Model file that `normscope fit` wrote.")],
    paths: Annotated[list[Path], typer.Argument(help="Images, or folders of them.")],
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")] = None,
    heatmaps: Annotated[Path | None, typer.Option(help="Write a heat map of each image into this folder.")] = None,
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
            raise typer.BadParameter("no image was found in what was given")
        if not_images:
            say(f"{len(not_images)} files that are no images were passed over")
        if csv_file:
            write_csv(csv_file, rows)
        if heatmaps:
            draw(detector, files, rows, heatmaps)
        if json:
            print_json(rows)
        elif not csv_file:
            print_rows(rows)
        unreadable = sum(row["error"] is not None for row in rows)
        flagged = sum(bool(row["anomalous"]) for row in rows)
        say(f"{len(rows)} images, {flagged} anomalous, {unreadable} could not be read")
    if unreadable:
        raise typer.Exit(SOME_UNREADABLE)
