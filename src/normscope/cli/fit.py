"""`normscope fit`: learn from a folder of normal images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from normscope.cli.output import Debug, Json, check_writable, import_all, one_line_errors, plural, print_json, say
from normscope.cli.progress import bars
from normscope.errors import SettingError

if TYPE_CHECKING:
    from normscope.detector import Detector

FEW_STEPS = 100
SHOWN = 10  # suspects


def fit(
    folder: Annotated[Path, typer.Argument(help="Folder of normal images, searched through.")],
    model: Annotated[Path, typer.Option("--output", "-o", help="Model file to write, e.g. model.safetensors.")],
    method: Annotated[str, typer.Option(help="`normscope methods` lists them.")] = "surprisal",
    encoder: Annotated[
        str | None,
        typer.Option(help="Use a pretrained encoder, as it is: efficientnet-lite0, or a name that timm knows."),
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="A setting of the method, key=value; may be repeated.")] = [],  # noqa: B006
    budget: Annotated[str | None, typer.Option(help="Train at most this long: 90s, 5m, 1h.  [default: 5m]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train this many epochs; with --budget, what ends first.")] = None,
    size: Annotated[str, typer.Option(help="Side in pixels to which images are squashed, 28 to 256.")] = "auto",
    anomalies: Annotated[
        Path | None, typer.Option(help="Folder of images known to be bad, for a method that makes use of them.")
    ] = None,
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
        if encoder:
            method, set_ = "pretrained" if method == "surprisal" else method, [*set_, f"encoder={encoder}"]
        import_all()
        from normscope.detector import Detector
        from normscope.methods import settings_of
        from normscope.settings import parse, to_json
        from normscope.training.checkpoint import remove

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
        learn(detector, folder, anomalies, checkpoint, resume, allow_collapse)
        result = {"model": str(model), "sha256": detector.save(model), **findings(detector, folder)}
        remove(checkpoint)  # only now: until the model is written, it is all there is
        if json:
            print_json(result)
        else:
            print(f"learnt from {result['images']} images in {result['seconds']:.0f} s; health: {result['health']}")
            print(f"scores above {result['threshold']:.4g} are anomalous: {promise(detector)}")
            print(f"wrote {model}")


def learn(
    detector: "Detector", folder: Path, anomalies: Path | None, checkpoint: Path, resume: bool, allow_collapse: bool
) -> None:
    """Fits, with the state of training kept beside the model."""
    from normscope.training.checkpoint import exists

    if resume and not exists(checkpoint):
        say(f"note: there is no {checkpoint} to go on from; training starts anew")
    if exists(checkpoint) and not resume:
        say(f"note: {checkpoint} of an interrupted fit is replaced; --resume would go on from it")
    try:
        with bars() as show:
            detector.fit(
                folder,
                anomalies=anomalies,
                allow_collapse=allow_collapse,
                checkpoint=checkpoint,
                resume=resume,
                watch=show.training,
                watch_images=show.images,
            )
    except KeyboardInterrupt:
        if exists(checkpoint):
            say("the state of training is saved; the same command with --resume goes on from it")
        raise


def findings(detector: "Detector", folder: Path) -> dict[str, float | str | list[str]]:
    """What the user should know of a fitted detector; what is doubtful about it is said at once."""
    card, calibration = detector.card, detector.calibration
    from normscope.images.notation import printable

    assert card is not None
    assert calibration is not None
    data, training = card["data"], card["training"]
    if calibration.note:
        say(f"note: {calibration.note}")
    if data["skipped"]:
        say(f"note: {plural(data['skipped'], 'file')} skipped; `normscope doctor {folder}` says why")
    if training["epochs"] is None and 0 < training["steps"] < FEW_STEPS:
        say(f"note: there was time for {plural(training['steps'], 'training step')} only; give a larger --budget")
    if detector.suspects:
        say(f"note: {plural(len(detector.suspects), 'image')} may not be normal; the strangest, with their scores:")
        for suspect in detector.suspects[:SHOWN]:
            say(f"  {suspect.score:9.2f}  {printable(suspect.path) if suspect.path else suspect.place}")
    return {
        "images": data["images"],
        "skipped": data["skipped"],
        "seconds": training["seconds"],
        "threshold": calibration.threshold,
        "health": training["health"],
        "suspects": [str(suspect.path) for suspect in detector.suspects],
    }


def promise(detector: "Detector") -> str:
    from normscope.calibration import percent

    assert detector.calibration is not None
    return f"at most {percent(detector.calibration.achievable)} of normal images"


def size_of(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if text.isdecimal():
        return int(text)
    raise SettingError(f"size is {text!r}; give auto or a number of pixels")
