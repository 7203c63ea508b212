"""`normscope fit`: learn from a folder of normal images."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from normscope.cli.output import Debug, Json, one_line_errors, print_json, say
from normscope.cli.progress import bars
from normscope.errors import ModelFileError, SettingError


def fit(
    folder: Annotated[Path, typer.Argument(help="Folder of normal images, searched through.")],
    model: Annotated[Path, typer.Option("--output", "-o", help="Model file to write, e.g. model.safetensors.")],
    method: Annotated[str, typer.Option(help="`normscope methods` lists them.")] = "surprisal",
    set_: Annotated[list[str], typer.Option("--set", help="A setting of the method, key=value; may be repeated.")] = [],  # noqa: B006
    budget: Annotated[str | None, typer.Option(help="Train at most this long: 90s, 5m, 1h.  [default: 5m]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train this many epochs instead.")] = None,
    size: Annotated[str, typer.Option(help="Side in pixels to which images are squashed, 28 to 256.")] = "auto",
    false_alarm_rate: Annotated[float, typer.Option(help="Share of normal images that may be flagged.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Governs everything that is random.", min=0)] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from where an interrupted fit stopped.")] = False,
    allow_collapse: Annotated[bool, typer.Option("--allow-collapse", help="Keep a model that collapsed.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn what normal images look like from a folder of them."""
    with one_line_errors(debug):
        check_writable(model)
        from normscope.calibration import percent
        from normscope.detector import Detector
        from normscope.methods import settings_of
        from normscope.settings import parse, to_json

        detector = Detector(
            method,
            settings=to_json(parse(settings_of(method), set_)),
            seed=seed,
            budget=budget,
            epochs=epochs,
            size=size_of(size),
            false_alarm_rate=false_alarm_rate,
            device=device,
        )
        checkpoint = model.with_name(model.name + ".checkpoint")
        try:
            with bars() as show:
                detector.fit(
                    folder,
                    allow_collapse=allow_collapse,
                    checkpoint=checkpoint,
                    resume=resume,
                    watch=show.training,
                    watch_reading=show.reading,
                )
        except KeyboardInterrupt:
            if checkpoint.exists():
                say("the state of training is saved; the same command with --resume goes on from it")
            raise
        checksum = detector.save(model)
        card, calibration = detector.card, detector.calibration
        assert card is not None
        assert calibration is not None
        if calibration.note:
            say(f"note: {calibration.note}")
        if card["data"]["skipped"]:
            say(f"note: {card['data']['skipped']} files were skipped; `normscope doctor {folder}` says why")
        result = {
            "model": str(model),
            "images": card["data"]["images"],
            "skipped": card["data"]["skipped"],
            "seconds": card["training"]["seconds"],
            "threshold": calibration.threshold,
            "health": card["training"]["health"],
            "sha256": checksum,
        }
        if json:
            print_json(result)
        else:
            print(f"learnt from {result['images']} images in {result['seconds']:.0f} s; health: {result['health']}")
            rate = percent(calibration.achievable)
            print(f"scores above {calibration.threshold:.4g} are anomalous: at most {rate} of normal images")
            print(f"wrote {model}")


def check_writable(model: Path) -> None:
    """Before minutes of training, not after them."""
    folder = model.absolute().parent
    if model.is_dir():
        raise ModelFileError(f"{model} is a folder; give the name of a file to write")
    if not folder.is_dir():
        raise ModelFileError(f"{folder} does not exist; create it or write elsewhere")
    if not os.access(folder, os.W_OK):
        raise ModelFileError(f"{folder} is not writable; write elsewhere")


def size_of(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if text.isdecimal():
        return int(text)
    raise SettingError(f"size is {text!r}; give auto or a number of pixels")
