"""Which measurements belong on one line of a table: those of one variant of a method."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from normscope.benchmark import measurement as measurements
from normscope.benchmark.cell import Cell
from normscope.benchmark.measurement import Measurement
from normscope.errors import DatasetError, SettingError
from normscope.settings import JSON


class Variant(NamedTuple):
    """A method and everything that was chosen for it; the data set, the class and the seed are no part of it."""

    method: str
    settings: str  # JSON with sorted keys, so that it can be compared and hashed
    budget: float | None
    epochs: int | None
    test_images: int | None

    def chosen(self) -> dict[str, JSON]:
        """The settings as a mapping."""
        chosen: dict[str, JSON] = json.loads(self.settings)
        return chosen


def variant_of(cell: Cell) -> Variant:
    settings = json.dumps(cell.settings, sort_keys=True)
    return Variant(cell.method, settings, cell.budget, cell.epochs, cell.test_images)


def read(paths: Iterable[Path]) -> list[Measurement]:
    """The measurements of all files; of a class and seed that a variant was measured on twice, the last."""
    latest: dict[tuple[object, ...], Measurement] = {}
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"{path} is no file; give one that `normscope bench` wrote")
        for measurement in measurements.read(path):
            cell = measurement.cell
            key = (cell.dataset, variant_of(cell), cell.normal, cell.seed)
            latest.pop(key, None)  # so that it takes the place of the later one
            latest[key] = measurement
    return list(latest.values())


def by_variant(measurements: Iterable[Measurement]) -> dict[Variant, dict[int, list[Measurement]]]:
    """And by normal class."""
    variants: dict[Variant, dict[int, list[Measurement]]] = {}
    for measurement in measurements:
        classes = variants.setdefault(variant_of(measurement.cell), {})
        classes.setdefault(measurement.cell.normal, []).append(measurement)
    return variants


def label(variant: Variant, others: Iterable[Variant]) -> str:
    """The method and its settings other than the defaults; the budget only if `others` have another."""
    words = [variant.method, *changed(variant)]
    if len({other.budget for other in others}) > 1:
        words.append("no budget" if variant.budget is None else f"budget {variant.budget:g} s")
    if variant.epochs is not None:
        words.append(f"at most {variant.epochs} epochs")
    if variant.test_images is not None:
        words.append(f"{variant.test_images} test images")
    return words[0] + (" " + ", ".join(words[1:]) if len(words) > 1 else "")


def changed(variant: Variant) -> list[str]:
    """`beta=2` for a setting other than the default, `beta unset` for one that was added after the measurement, unless
    it is empty by default, and so has added nothing."""
    chosen = variant.chosen()
    preset = chosen.get("preset")
    default = defaults(variant.method, preset if isinstance(preset, str) else None)
    usual = {
        **default,
        "preset": defaults(variant.method).get("preset"),
    }  # another preset is told, not all that it sets
    others = [f"{key}={written(value)}" for key, value in chosen.items() if key not in default or usual[key] != value]
    return others + [f"{key} unset" for key, value in default.items() if key not in chosen and value != ""]


@cache
def defaults(method: str, preset: str | None = None) -> Mapping[str, JSON]:
    """The default settings, or those of a preset; none for an unknown method: all its settings count as changed."""
    from normscope.methods import settings_of  # imports torch, which takes seconds
    from normscope.settings import build, to_json

    try:
        return to_json(build(settings_of(method), {"preset": preset} if preset else {}))
    except SettingError:
        return {}


def written(value: JSON) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
