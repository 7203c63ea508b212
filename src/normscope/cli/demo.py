"""`normscope demo`: the main job on real images that need no download: fit, score, report the odd ones out."""

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.opening import import_all
from normscope.cli.options import Debug, Json
from normscope.cli.output import print_json, say
from normscope.cli.progress import bars
from normscope.cli.score import p_shown
from normscope.errors import ImageFolderError
from normscope.files import write_text
from normscope.images.notation import printable

if TYPE_CHECKING:
    import numpy as np

    from normscope.model import Model, Row

NORMAL = 4
WORST = 10
Picture = tuple[str, "np.ndarray"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the images, the model and the report.")] = Path(
        "normscope-demo"
    ),
    budget: Annotated[str, typer.Option(help="Train at most this long.")] = "20s",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn one handwritten digit from a folder of PNG files, then find the others mixed into a second folder."""
    with one_line_errors(debug):
        began = time.perf_counter()
        good, mixed = digits()
        write_pngs(out / "good", good)
        write_pngs(out / "mixed", mixed)
        say(f"{out / 'good'} has {len(good)} images of the digit {NORMAL}, {out / 'mixed'} {len(mixed)} of all digits")
        import numpy as np

        import_all()
        from normscope.benchmark.metrics import auroc
        from normscope.fitting import fit
        from normscope.options import checked

        with bars() as observer:
            fitted = fit(out / "good", checked(budget=budget, false_alarm_rate=0.05), observer=observer)
        model, report = out / "model.safetensors", out / "report.html"
        checksum = fitted.model.save(model)
        rows = score_with_report(fitted.model, [out / "mixed" / name for name, _ in mixed], report, model, checksum)
        is_anomaly = np.array([not is_normal(row) for row in rows])
        value = auroc(np.array([row["score"] for row in rows], float), is_anomaly)
        seconds = time.perf_counter() - began
        if json:
            print_json({"auroc": value, "seconds": round(seconds, 2), "model": str(model), "report": str(report)})
            return
        print_findings(rows, is_anomaly)
        print(f"AUROC {value:.4f} in {seconds:.0f} s; the model is {model}")
        print(f"the report is {report}: open it in a browser")


def digits() -> tuple[list[Picture], list[Picture]]:
    """The normal images and the mixed ones, each with a file name that begins with its digit."""
    from normscope.datasets import digits as dataset

    data = dataset.load()
    normal = data.train_images[data.train_labels == NORMAL]
    good = [(f"{NORMAL}-{number:04}.png", image) for number, image in enumerate(normal)]
    labelled = zip(data.test_labels, data.test_images, strict=True)
    return good, [(f"{label}-{number:04}.png", image) for number, (label, image) in enumerate(labelled)]


def write_pngs(folder: Path, images: list[Picture]) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    if foreign := {path.name for path in folder.iterdir()} - {name for name, _ in images}:
        raise ImageFolderError(f"{folder} holds other files ({min(foreign)}); give another folder with --out")
    for name, image in images:
        Image.fromarray(image).save(folder / name)


def score_with_report(model: "Model", paths: list[Path], report: Path, file: Path, checksum: str) -> "list[Row]":
    """Rows of the images, and a report of them."""
    from normscope.report.gathering import Gathering
    from normscope.report.page import page

    gathering = Gathering(len(paths))
    with bars() as observer:
        for path, scored in zip(paths, model.scored(paths, with_heat=model.method.scaled_heat), strict=True):
            gathering.add(path, scored)
            observer.images("scoring", len(gathering.rows), len(paths))
    write_text(report, page(gathering, model, printable(file), checksum, datetime.now()))
    return gathering.rows


def is_normal(row: "Row") -> bool:
    return Path(row["path"]).name.startswith(f"{NORMAL}-")


def print_findings(rows: "list[Row]", is_anomaly: "np.ndarray") -> None:
    import numpy as np

    worst = sorted(rows, key=lambda row: -(row["score"] or 0.0))[:WORST]
    print(f"the {WORST} most surprising of {len(rows)} images:")
    for row in worst:
        print(f"  score {row['score']:7.2f}  {p_shown(row):>9}  {row['path']}")
    flagged = np.array([bool(row["anomalous"]) for row in rows])
    print(f"flagged {flagged[is_anomaly].sum()} of {is_anomaly.sum()} other digits", end=" ")
    print(f"and {flagged[~is_anomaly].sum()} of {(~is_anomaly).sum()} that are {NORMAL}")
