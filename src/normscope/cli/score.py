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
from normscope.errors import ImageFolderError, NormscopeError
from normscope.files import write_text
from normscope.images.folder import check_path, obstacle, scan
from normscope.images.notation import escape, printable
from normscope.images.outcome import FileOutcome, Kind

if TYPE_CHECKING:
    from normscope.model import Model, Row

COLUMNS = ("path", "score", "p_value", "anomalous", "error")
FORMULA = tuple("=+-@\t\r＝＋－＠")  # a spreadsheet takes a cell that begins with one of these for a formula


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

        rows: list[Row] = []
        try:
            score_all(load(model, device=device), look_through(paths), rows)
        finally:  # interrupted, what there is so far is kept
            if csv_file and rows:
                save_rows(csv_file, rows)
        if json:
            print_json(rows)
        elif not csv_file:
            print_rows(rows)
        unreadable = sum(row["error"] is not None for row in rows)
        flagged = sum(bool(row["anomalous"]) for row in rows)
        say(f"{plural(len(rows), 'image')}, {flagged} anomalous, {unreadable} could not be read")
        if unreadable:
            raise typer.Exit(SOME_UNREADABLE)


def look_through(paths: Sequence[Path]) -> list[FileOutcome]:
    """Every file to be scored, in order; at least one."""
    if all(obstacle(path) for path in paths):
        check_path(paths[0])
    found = [one for path in paths for one in scan(path)]
    wanted = [one for one in found if one.kind is not Kind.IGNORED]
    if not wanted:
        raise ImageFolderError("no image was found in what was given; `normscope doctor FOLDER` says why")
    if len(wanted) < len(found):
        say(f"{plural(len(found) - len(wanted), 'file')} ignored as no images")
    return wanted


def score_all(model: "Model", wanted: Sequence[FileOutcome], rows: "list[Row]") -> None:
    """Appends a row for each file, so that they are there if something interrupts."""
    scored = model.rows([one.path for one in wanted if one.kind is Kind.IMAGE])
    with bars() as observer:
        for one in wanted:
            rows.append(next(scored) if one.kind is Kind.IMAGE else model.row(one.path, one.reason))
            observer.images("scoring", len(rows), len(wanted))


def save_rows(path: Path, rows: "Sequence[Row]") -> None:
    """To the file or, if it cannot be written, to standard output, so that none is lost."""
    text = as_csv(rows)
    try:
        write_text(path, text)
    except OSError as error:
        print(text, end="")
        raise NormscopeError(
            f"{printable(path)} cannot be written ({error.strerror}): none of {plural(len(rows), 'row')} is in it, all "
            "are on standard output"
        ) from error
    say(f"wrote {plural(len(rows), 'row')} to {printable(path)}")


def as_csv(rows: "Sequence[Row]") -> str:
    text = io.StringIO(newline="")
    # All text is quoted, lest a spreadsheet divide it at a separator of its own and find a formula behind that.
    writer = csv.DictWriter(text, COLUMNS, quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    for row in rows:
        writer.writerow({**row, "path": no_formula(row["path"]), "error": no_formula(row["error"] or "")})
    return text.getvalue()


def no_formula(text: str) -> str:
    """The first character escaped if it would make a formula of the cell; `from_printable` reads that back."""
    return escape(text[0]) + text[1:] if text[:1] in FORMULA else text


def print_rows(rows: "Sequence[Row]") -> None:
    """The most surprising first, files that could not be read last."""
    for row in sorted(rows, key=lambda row: (row["score"] is None, -(row["score"] or 0.0))):
        if row["error"] is not None:
            print(f"{'unreadable':>10}  {'':>10}  {'':>8}  {row['path']}: {row['error']}")
            continue
        verdict = {True: "anomalous", False: "normal", None: ""}[row["anomalous"]]
        p_value = "" if row["p_value"] is None else f"p {row['p_value']:.3f}"
        print(f"{verdict:>10}  {row['score']:10.4g}  {p_value:>8}  {row['path']}")
