"""What people said of scored images → a calibration that includes those they found fine."""

import csv
import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.stats import binom

from normscope.calibration import Calibration
from normscope.errors import NormscopeError, SettingError
from normscope.images import store
from normscope.images.notation import from_printable, printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.inference import batch_size
from normscope.model import Model
from normscope.training.observer import Observer

COLUMNS = ("path", "verdict")
ANOMALOUS, FINE, SKIPPED = "anomalous", "fine", ("", "skip")
UNLIKELY = 0.01


class Verdicts(NamedTuple):
    """Each path once, in order."""

    fine: list[Path]
    anomalous: list[Path]
    repeated: int  # rows that say again what another row said


class Recalibrated(NamedTuple):
    """`joined` images were new to the calibration, and the model as it was flagged so many of them; `known` had joined
    before, or are copies of others."""

    model: Model
    before: Calibration
    after: Calibration
    joined: int
    flagged: int
    known: int
    unreadable: list[FileOutcome]

    @property
    def note(self) -> str | None:
        """A sentence for the user where more of the images were flagged than random ones would be."""
        if binom.sf(self.flagged - 1, self.joined, self.before.achievable) >= UNLIKELY:
            return None
        return (
            f"{self.flagged} of {self.joined} images that joined had been flagged, more than of normal images drawn at "
            "random: the threshold is now too high and misses more; better give verdicts on a random part of all images"
        )


def read_verdicts(path: Path) -> Verdicts:
    """Of a CSV file with the columns path and verdict, as a report's download writes it."""
    found: dict[Path, str] = {}
    repeated = 0
    for where, written, verdict in rows(path):
        if verdict not in (ANOMALOUS, FINE, *SKIPPED):
            raise NormscopeError(f"{where}: verdict {verdict!r}; write {ANOMALOUS}, {FINE}, or skip")
        if verdict in SKIPPED:
            continue
        try:
            image = from_printable(written)
        except ValueError as error:
            raise NormscopeError(f"{where}: {error}") from error
        if found.get(image, verdict) != verdict:
            raise NormscopeError(
                f"{where}: {written} is {verdict} here and {found[image]} before; keep one of the rows"
            )
        repeated += image in found
        found[image] = verdict
    fine, anomalous = ([image for image, verdict in found.items() if verdict == one] for one in (FINE, ANOMALOUS))
    return Verdicts(fine, anomalous, repeated)


def rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Where each row stands, its path and its verdict."""
    try:
        reader = csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""), strict=True)
        columns = [name.strip() for name in reader.fieldnames or []]
        if not set(COLUMNS) <= set(columns):
            raise NormscopeError(
                f"{printable(path)} has the columns {', '.join(columns) or 'of an empty file'}; give a CSV file with "
                "path and verdict, separated by commas, as a report's download writes it"
            )
        reader.fieldnames = columns
        for row in reader:
            yield (
                f"{printable(path)}, line {reader.line_num}",
                row["path"] or "",
                (row["verdict"] or "").strip().lower(),
            )
    except (UnicodeDecodeError, csv.Error) as error:
        raise NormscopeError(f"{printable(path)} is no CSV file in UTF-8 ({error})") from error


def recalibrated(model: Model, fine: Sequence[Path], observer: Observer | None = None) -> Recalibrated:
    """The model whose calibration also has the scores of these images, which had no part in the fit.

    An image joins once, whatever its name and however often; those that cannot be read do not.
    """
    if model.calibration is None:
        raise SettingError("the model was fitted without a calibration set; fit it with a false-alarm rate")
    scores: dict[str, float] = {}
    unreadable: list[FileOutcome] = []
    together, readable = batch_size(model.method), 0
    for start in range(0, len(fine), together):
        pixels, outcomes = store.from_paths(fine[start : start + together], model.size)
        images = [hashlib.sha256(pixels[index].tobytes()).hexdigest() for index in range(len(pixels))]
        scores |= dict(zip(images, model.scores(pixels).tolist(), strict=True))
        unreadable += [one for one in outcomes if one.kind is not Kind.IMAGE]
        readable += len(pixels)
        if observer:
            observer.images("scoring", start + len(outcomes), len(fine))
    before, after = model.calibration, model.calibration.joined_by(scores)
    new = [score for image, score in scores.items() if image not in before.reviewed]
    return Recalibrated(
        model.calibrated(after),
        before,
        after,
        joined=len(new),
        flagged=int(before.anomalous(new).sum()),
        known=readable - len(new),
        unreadable=unreadable,
    )
