"""`normscope watch`: score each image of a folder once it is completely written."""

import math
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.opening import open_model
from normscope.cli.options import Debug, Device, Json, ModelFile, OtherRate
from normscope.cli.output import plural, print_json, say
from normscope.cli.score import COLUMNS, print_rows, say_promise
from normscope.cli.targets import check_writable
from normscope.errors import NormscopeError, SettingError
from normscope.files import is_stream
from normscope.hotfolder import LAST_TRY, Sighting, Signature, look, signature
from normscope.images.folder import check_folder, obstacle
from normscope.images.notation import cell, from_printable, printable
from normscope.images.outcome import Kind
from normscope.rowlog import RowLog, opened
from normscope.training.interrupt import Stop, deferred

if TYPE_CHECKING:
    from normscope.drift import Drift
    from normscope.model import Model, Row

MEMORY = ("size", "modified", "model", "time")  # what the rows of `score` do not have
MODEL_LETTERS = 12  # of the checksum
ALARM_SECONDS = 60
STANDARD_ERROR = 2  # its output does not mix with the rows
NAP = 0.1  # seconds: so soon a signal is noticed


def watch(
    model: ModelFile,
    folder: Annotated[Path, typer.Argument(help="Folder to watch, and the folders below it.")],
    csv_file: Annotated[Path, typer.Option("--csv", help="File to which a row is appended for each image.")],
    alarm: Annotated[
        str | None,
        typer.Option(
            help="Command to run for each anomalous image, such as 'notify {path}'; no shell, {path} is a word."
        ),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks at the folder.", min=0.05)] = 1.0,
    false_alarm_rate: OtherRate = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score each image that appears in a folder, once it is completely written, until Ctrl-C.

    The CSV file is the memory: started again with it, images that have a row are not scored again unless they were
    replaced. Says when normal has moved.
    """
    with one_line_errors(debug):
        check_folder(folder)
        check_log(csv_file)
        command = alarm_command(alarm)
        fitted = open_model(model, device, false_alarm_rate)
        from normscope.export.exported import checksum_of

        if command and fitted.calibration is None:
            raise SettingError("the model was fitted without a calibration set and flags nothing; leave --alarm out")
        name = checksum_of(model)[:MODEL_LETTERS]
        with opened(csv_file, (*COLUMNS, *MEMORY)) as log, deferred() as stop:
            watching = Watching(fitted, name, log, command, json, remembered(log))
            say_promise(fitted)
            watching.follow(log.rows)
            say(
                f"watching {printable(folder)}, {plural(len(log.rows), 'row')} in {printable(csv_file)}; Ctrl-C ends it"
            )
            run(watching, folder.absolute(), interval, stop)
        stop.raise_if_requested()


def run(watching: "Watching", folder: Path, interval: float, stop: Stop) -> None:
    """Until somebody asks to stop."""
    sightings: Mapping[Path, Sighting] = {}
    away = False
    while not stop.requested:
        reason = obstacle(folder)
        if reason and not away:
            say(f"note: {printable(folder)} {reason}; waiting for it")
        away = reason is not None
        if not away:
            sightings = look(folder, sightings, watching.scored)
            watching.score([one for one in sightings.values() if one.due], stop)
        until = time.monotonic() + interval
        while not stop.requested and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP))


@dataclass
class Watching:
    """What is scored by what, and what is known so far."""

    model: "Model"
    name: str
    log: RowLog
    command: list[str] | None
    json: bool
    scored: dict[Path, Signature]
    drift: "Drift | None" = None
    moved: bool = False  # has been said

    def score(self, due: Sequence[Sighting], stop: Stop) -> None:
        """A row for each that is still as it was seen; one that cannot be read gets it at the last try."""
        for one, row in zip(due, self.rows(due), strict=True):
            if stop.requested:
                return
            if signature(one.file.path) != one.signature or (row["error"] is not None and one.polls < LAST_TRY):
                continue
            if row["anomalous"] and self.command:
                raise_alarm(self.command, one.file.path)  # before the row: killed in between, it is raised again
            self.log.append(self.entry(row, one.signature))
            self.scored[one.file.path] = one.signature
            self.show(row)

    def rows(self, due: "Sequence[Sighting]") -> "Iterator[Row]":
        scored = self.model.rows([one.file.path for one in due if one.file.kind is Kind.IMAGE])
        return (
            next(scored) if one.file.kind is Kind.IMAGE else self.model.row(one.file.path, one.file.reason)
            for one in due
        )

    def entry(self, row: "Row", signature: Signature) -> dict[str, object]:
        """The row for the log, on one line."""
        error = cell(" ".join((row["error"] or "").split()))
        memory = {**signature._asdict(), "model": self.name, "time": datetime.now(UTC).isoformat(timespec="seconds")}
        return {**row, "path": cell(row["path"]), "error": error, **memory}

    def show(self, row: "Row") -> None:
        if self.json:
            print_json(row)
        else:
            print_rows([row])
        sys.stdout.flush()
        if row["score"] is not None:
            self.follow([{"model": self.name, "score": str(row["score"])}])

    def follow(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Carries the test of drift on, by rows that this model scored, and says once what it finds."""
        from normscope.drift import begin, carried_on

        if self.model.calibration is None:
            return
        scores = [float(row["score"]) for row in rows if row["model"] == self.name and row["score"]]
        self.drift = carried_on(self.drift or begin(self.model.calibration), scores)
        if self.drift.message and not self.moved:
            say(f"note: {self.drift.message}")
            self.moved = True


def remembered(log: RowLog) -> dict[Path, Signature]:
    """Which files have a row, as they were last scored."""
    try:
        for row in log.rows:
            if row["score"] and not math.isfinite(float(row["score"])):
                raise ValueError(f"the score of {row['path']!r} is {row['score']}")
        return {from_printable(row["path"]): Signature(int(row["size"]), int(row["modified"])) for row in log.rows}
    except ValueError as error:
        raise NormscopeError(
            f"{printable(log.path)} was changed since watch wrote it ({error}); give another"
        ) from error


def check_log(path: Path) -> None:
    check_writable(path)
    if is_stream(path):
        raise NormscopeError(
            f"{printable(path)} is no file; the rows are the memory of watch, give a file to keep them"
        )


def alarm_command(template: str | None) -> list[str] | None:
    """The words of the command; raises unless it can be run."""
    if template is None:
        return None
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise SettingError(
            f"alarm {template!r} cannot be read ({error}); write it as in a shell, quotes closed"
        ) from None
    if not words or shutil.which(words[0]) is None:
        raise SettingError(f"alarm {template!r} names no program that can be run; give one such as 'notify {{path}}'")
    return words


def raise_alarm(command: Sequence[str], path: Path) -> None:
    """Runs the command without a shell, the path as a part of one word, whatever its letters. Its failure is said."""
    words = [word.replace("{path}", str(path)) for word in command]
    try:
        code = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=STANDARD_ERROR, timeout=ALARM_SECONDS, start_new_session=True
        ).returncode
        failure = f"ended with {code}" if code else None
    except subprocess.TimeoutExpired:
        failure = f"was ended after {ALARM_SECONDS} s"
    except OSError as error:
        failure = f"did not start ({error.strerror})"
    if failure:
        say(f"note: the alarm for {printable(path)} {failure}")
