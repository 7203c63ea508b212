"""`normscope fit --dry-run`: what a fit would do, and the time and memory it needs."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from normscope.cli.ending import SOME_UNREADABLE
from normscope.cli.output import plural, print_json
from normscope.cli.progress import bars

if TYPE_CHECKING:
    from normscope.cli.fit import Given
    from normscope.options import Options
    from normscope.rehearsal import Forecast


def show_forecast(options: "Options", given: "Given", json: bool) -> None:
    """What a fit would do; exit code 3 if files could not be read, as it would be."""
    from normscope.images.outcome import Kind
    from normscope.rehearsal import forecast

    with bars() as observer:
        found = forecast(
            given.folder,
            options,
            anomalies=given.anomalies,
            exclude_outliers=given.exclude_outliers,
            observer=observer,
        )
    skipped = Counter(one.reason for one in found.left_out)
    if json:
        print_json({**found._asdict(), "left_out": skipped, "skipped": len(found.left_out), "seconds": found.seconds})
    else:
        print_forecast(found, skipped)
    if any(one.kind is Kind.UNREADABLE for one in found.left_out):
        raise typer.Exit(SOME_UNREADABLE)


def print_forecast(found: "Forecast", skipped: Mapping[str, int]) -> None:
    print(f"{plural(found.images, 'image')} found, {plural(sum(skipped.values()), 'file')} skipped")
    for reason, count in sorted(skipped.items(), key=lambda one: -one[1]):
        print(f"  {count} × {reason}")
    print(f"method {found.method}" + (f": {found.why}" if found.why else ""))
    print(f"images of {found.size[0]}x{found.size[1]} (height x width)")
    if found.folds:
        print(f"fitted to all {found.images}, calibrated by {found.folds} folds of them")
    else:
        print(
            f"trained on {found.trained_on} in {plural(found.steps, 'step')}, calibrated with {found.calibrated_with}"
        )
    print(
        f"about {duration(found.seconds)}: reading {duration(found.reading)}, training {duration(found.training)}, "
        f"then {duration(found.finishing)}"
    )
    if found.memory is not None:
        print(f"about {found.memory / 1e9:.1f} GB of memory")
    print("nothing was written")


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
