"""`normscope recalibrate`: images that were reviewed as fine join the calibration of a model."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import SOME_UNREADABLE, one_line_errors
from normscope.cli.opening import import_all
from normscope.cli.options import Debug, Device, FittedFile, Json
from normscope.cli.output import plural, print_json, say
from normscope.cli.progress import bars
from normscope.cli.targets import check_replaceable, check_writable
from normscope.errors import NormscopeError
from normscope.images.notation import printable

if TYPE_CHECKING:
    from normscope.recalibration import Recalibrated, Verdicts

SHOWN = 10  # files that could not be read


def recalibrate(
    model: FittedFile,
    verdicts: Annotated[Path, typer.Argument(help="CSV file with path and verdict, downloaded from a report.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists, the model itself too.")] = False,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add images that were reviewed as fine to the calibration set; scores stay as they are, the threshold moves.

    Best are verdicts on a random part of the images: on flagged ones alone they raise the threshold too far.
    """
    with one_line_errors(debug):
        check_writable(output)
        check_replaceable(output, force)
        import_all()
        from normscope.model import load
        from normscope.recalibration import read_verdicts, recalibrated

        said = read_verdicts(verdicts)
        offer_anomalies(said, verdicts)
        if not said.fine:
            raise NormscopeError(f"{printable(verdicts)} calls no image fine; there is nothing to calibrate with")
        fitted = load(model, device=device)
        with bars() as observer:
            found = recalibrated(fitted, said.fine, observer)
        check_read(found, said)
        checksum = found.model.save(output)
        say_notes(found, said)
        if json:
            print_json({"model": str(output), "sha256": checksum, **findings(found, said)})
        else:
            print_findings(found, output)
        if found.unreadable:
            raise typer.Exit(SOME_UNREADABLE)


def offer_anomalies(said: "Verdicts", file: Path) -> None:
    if said.anomalous:
        fit = f"normscope fit FOLDER --anomalies {shlex.quote(str(file))} -o MODEL"
        say(
            f"{plural(len(said.anomalous), 'image')} reviewed as anomalous; a fit can learn from them: {printable(fit)}"
        )


def check_read(found: "Recalibrated", said: "Verdicts") -> None:
    """Says which files could not be read; raises if none could."""
    for one in found.unreadable[:SHOWN]:
        say(f"note: {printable(one.path)} cannot be read ({one.reason})")
    if len(found.unreadable) > SHOWN:
        say(f"note: … and {plural(len(found.unreadable) - SHOWN, 'other file')}")
    if len(found.unreadable) == len(said.fine):
        raise NormscopeError(
            f"none of {plural(len(said.fine), 'image')} reviewed as fine can be read; paths are relative to the folder "
            "in which `normscope score` was run: go there"
        )


def say_notes(found: "Recalibrated", said: "Verdicts") -> None:
    if said.repeated:
        say(f"note: {plural(said.repeated, 'row')} repeated, and counted once")
    if found.known:
        say(f"note: {plural(found.known, 'image')} already in the calibration or a copy of another, and counted once")
    for note in (found.note, found.after.note):
        if note:
            say(f"note: {note}")


def print_findings(found: "Recalibrated", output: Path) -> None:
    before, after = found.before, found.after
    print(f"{plural(found.joined, 'image')} reviewed as fine joined the {len(before.scores)} of the calibration set")
    print(f"the threshold was {before.threshold:.4g} and is {after.threshold:.4g}")
    print(after.promise)
    print(f"wrote {printable(output)}")


def findings(found: "Recalibrated", said: "Verdicts") -> dict[str, object]:
    return {
        "joined": found.joined,
        "flagged": found.flagged,
        "known": found.known,
        "repeated": said.repeated,
        "unreadable": [{"path": printable(one.path), "error": one.reason} for one in found.unreadable],
        "anomalous": [printable(path) for path in said.anomalous],
        "images": len(found.after.scores),
        "threshold_before": found.before.threshold,
        "threshold": found.after.threshold,
        "promise": found.after.promise,
        "note": found.note,
    }
