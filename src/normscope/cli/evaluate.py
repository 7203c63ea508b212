"""`normscope evaluate`: how well a model tells good images from bad ones, on labelled folders of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import SOME_UNREADABLE, one_line_errors
from normscope.cli.opening import open_model
from normscope.cli.options import Debug, Device, Json, ModelFile, OtherRate
from normscope.cli.output import plural, print_json, say
from normscope.cli.score import look_through, save_rows, score_all
from normscope.cli.targets import check_writable
from normscope.errors import ImageFolderError
from normscope.images.notation import printable
from normscope.rows import Rows

if TYPE_CHECKING:
    import numpy as np

    from normscope.benchmark.evaluation import Evaluation, Flagged, Share
    from normscope.model import Model, Row
    from normscope.settings import JSON


def evaluate(
    model: ModelFile,
    good: Annotated[Path, typer.Argument(help="Folder of normal images that the model was not fitted to.")],
    bad: Annotated[Path, typer.Argument(help="Folder of anomalies.")],
    false_alarm_rate: OtherRate = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write the rows to this file, good ones first.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure a model on labelled images: AUROC, and what it flags at its false-alarm rate and at 1 % and 5 %.

    Intervals are at 95 %: of AUROC by a bootstrap of the images, of shares by Wilson's formula.
    """
    with one_line_errors(debug):
        if csv_file:
            check_writable(csv_file)
        loaded = open_model(model, device, false_alarm_rate)
        from normscope.benchmark.evaluation import evaluate as evaluated

        good_rows, bad_rows = scored(loaded, good, bad, csv_file)
        found = evaluated(scores(good_rows, good), scores(bad_rows, bad), loaded.calibration)
        if json:
            print_json({**as_json(found), "good": [*good_rows], "bad": [*bad_rows]})
        else:
            print_evaluation(found, good_rows, bad_rows)
        if unreadable := sum(row["error"] is not None for row in (*good_rows, *bad_rows)):
            say(f"{plural(unreadable, 'image')} could not be read; `normscope score` says why")
            raise typer.Exit(SOME_UNREADABLE)


def scored(model: "Model", good: Path, bad: Path, csv_file: Path | None) -> tuple[Rows, Rows]:
    """The rows of both folders; interrupted, what there is so far is in the file."""
    given = [look_through([folder]) for folder in (good, bad)]
    if both := {one.path.resolve() for one in given[0]} & {one.path.resolve() for one in given[1]}:
        raise ImageFolderError(f"{printable(min(both))} is among the good and the bad; give two folders apart")
    rows = Rows(given[0]), Rows(given[1])
    try:
        for some, wanted in zip(rows, given, strict=True):
            score_all(model, wanted, some)
    finally:
        if csv_file and (every := [*rows[0], *rows[1]]):
            save_rows(csv_file, every)
    return rows


def scores(rows: "Sequence[Row]", folder: Path) -> "np.ndarray":
    import numpy as np

    found = [row["score"] for row in rows if row["score"] is not None]
    if not found:
        raise ImageFolderError(f"{printable(folder)} has no readable image; `normscope doctor FOLDER` lists why")
    return np.array(found)


def as_json(found: "Evaluation") -> "dict[str, JSON]":
    def counted(share: "Share") -> "dict[str, JSON]":
        return {**share._asdict(), "interval": list(share.interval)}

    def at(one: "Flagged") -> "dict[str, JSON]":
        return {**one._asdict(), "detection": counted(one.detection), "false_alarms": counted(one.false_alarms)}

    return {
        "auroc": found.auroc,
        "auroc_interval": list(found.interval),
        "confusion": confusion(found.flagged[0]) if found.flagged else None,
        "flagged": [at(one) for one in found.flagged],
    }


def confusion(at: "Flagged") -> "dict[str, JSON]":
    alarms, detected = at.false_alarms, at.detection
    return {
        "good": {"normal": alarms.of - alarms.number, "anomalous": alarms.number},
        "bad": {"normal": detected.of - detected.number, "anomalous": detected.number},
    }


def print_evaluation(found: "Evaluation", good_rows: "Sequence[Row]", bad_rows: "Sequence[Row]") -> None:
    low, high = found.interval
    count = [sum(row["error"] is None for row in rows) for rows in (good_rows, bad_rows)]
    print(f"AUROC {found.auroc:.4f} ({low:.4f} to {high:.4f}) on {count[0]} good and {count[1]} bad images")
    if not found.flagged:
        print("the model was fitted without a calibration set, so that nothing is flagged")
        return
    own = found.flagged[0]
    print(f"at its threshold, {own.threshold:.4g}:   flagged  not flagged")
    for name, share in (("bad", own.detection), ("good", own.false_alarms)):
        print(f"{name:>25} {share.number:>9} {share.of - share.number:>12}")
    for at in found.flagged:
        print(f"false-alarm rate {described(at)}: detects {of_all(at.detection)} of the bad,", end=" ")
        print(f"flags {of_all(at.false_alarms)} of the good")


def described(at: "Flagged") -> str:
    from normscope.calibration import percent

    return percent(at.asked) if at.asked == at.rate else f"{percent(at.asked)} ({percent(at.rate)} at best)"


def of_all(share: "Share") -> str:
    low, high = share.interval
    return f"{100 * share.share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
