"""`normscope score --heatmaps`: a folder with one picture for each image that was scored."""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from normscope.errors import ImageError, NormscopeError, SettingError
from normscope.files import write_atomically
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.methods import find, method_names
from normscope.model import Model, Scored
from normscope.report.overlay import LONGEST, overlay
from normscope.report.picture import jpeg, read

__all__ = ["Overlays", "check_scaled", "file_name"]

READABLE = 40  # characters of a file's name that are kept in that of its heat map


class Overlays:
    """Writes them into `folder` as images are scored. `failed` are images that could not be read a second time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        self.failed: list[FileOutcome] = []

    def prepare(self, model: Model, scored: Iterable[Path]) -> None:
        """Before minutes of work: whether this model has heat maps, and whether they can be written."""
        check_scaled(model)
        inside = self.folder.resolve()
        for path in scored:
            if path.is_dir() and inside.is_relative_to(path.resolve()):
                raise NormscopeError(
                    f"{printable(self.folder)} lies in {printable(path)}, which is scored: the heat maps would be "
                    "scored next time; write them elsewhere"
                )
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, path: Path, scored: Scored) -> None:
        if scored.heat is None:
            return
        try:
            pixels = read(path, LONGEST)
        except ImageError as error:  # it was readable a moment ago
            self.failed.append(FileOutcome(path, Kind.UNREADABLE, str(error)))
            return
        picture = overlay(pixels, scored.heat, caption(scored))
        write_atomically(self.folder / file_name(path), jpeg(picture))
        self.written += 1


def check_scaled(model: Model) -> None:
    """Raise unless heat has a scale that normal images fix: on any other, good images would look hot."""
    if not model.method.scaled_heat:
        able = [name for name in method_names() if find(name).scaled_heat]
        raise SettingError(
            f"the method {model.card['method']} has no heat maps on a scale that normal images fix; fit with one of "
            f"{', '.join(able)}"
        )


def file_name(path: Path) -> str:
    """Begins like that of the image, and is that of no other: the same for the same path, from any folder."""
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    readable = re.sub(r"[^\w.-]+", "_", path.name)[-READABLE:].lstrip(".-_")
    return f"{readable}.{digest}.jpg" if readable else f"{digest}.jpg"


def caption(scored: Scored) -> str:
    row = scored.row
    p_value = "" if row["p_value"] is None else f"   p {row['p_value']:.3f}"
    verdict = {True: "   anomalous", False: "   normal", None: ""}[row["anomalous"]]
    return f"{row['path']}   score {row['score']:.4g}{p_value}{verdict}"
