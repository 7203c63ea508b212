"""`normscope fit`: learn from a folder of normal images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from normscope.cli.output import (
    SOME_UNREADABLE,
    Debug,
    Json,
    check_writable,
    import_all,
    one_line_errors,
    plural,
    print_json,
    say,
)
from normscope.cli.progress import bars
from normscope.errors import CollapseError, SettingError, TrainingError

if TYPE_CHECKING:
    from normscope.fitting import Fitted
    from normscope.options import Options

FEW_STEPS = 100
SHOWN = 10  # outliers


def fit(
    folder: Annotated[Path, typer.Argument(help="Folder of normal images, searched through.")],
    model: Annotated[Path, typer.Option("--output", "-o", help="Model file to write, e.g. model.safetensors.")],
    method: Annotated[
        str | None, typer.Option(help="`normscope methods` lists them.  [default: surprisal]", show_default=False)
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Use a pretrained encoder, as it is: efficientnet-lite0, or a name that timm knows."),
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="A setting of the method, key=value; may be repeated.")] = [],  # noqa: B006
    budget: Annotated[str | None, typer.Option(help="Train at most this long: 90s, 5m, 1h.  [default: 5m]")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Train this many epochs; with --budget, what ends first. 0: train nothing.")
    ] = None,
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
        import_all()
        from normscope.images.outcome import Kind
        from normscope.methods import settings_of
        from normscope.options import checked
        from normscope.settings import parse, to_json
        from normscope.training.checkpoint import remove

        name, assignments = chosen_method(method, encoder, set_)
        options = checked(
            name,
            settings=to_json(parse(settings_of(name), assignments)),
            seed=seed,
            budget=budget,
            epochs=epochs,
            size=size_of(size),
            false_alarm_rate=false_alarm_rate,
            device=device,
        )
        checkpoint = model.with_name(model.name + ".checkpoint")
        fitted = learn(options, folder, anomalies, checkpoint, resume, allow_collapse)
        result = {"model": str(model), "sha256": fitted.model.save(model), **findings(fitted, folder)}
        remove(checkpoint)  # only now: until the model is written, it is all there is
        if json:
            print_json(result)
        else:
            print(f"learnt from {result['images']} images in {result['seconds']:.0f} s; health: {result['health']}")
            print(f"scores above {result['threshold']:.4g} are anomalous: {promise(fitted)}")
            print(f"wrote {model}")
        if any(one.kind is Kind.UNREADABLE for one in fitted.left_out):
            raise typer.Exit(SOME_UNREADABLE)


def chosen_method(method: str | None, encoder: str | None, assignments: list[str]) -> tuple[str, list[str]]:
    """The method and its settings: `--encoder` is a setting of `pretrained` and, given alone, chooses that."""
    if encoder is None:
        return method or "surprisal", assignments
    if method not in (None, "pretrained"):
        raise SettingError(f"the method {method} has no pretrained encoder; leave out --method or --encoder")
    return "pretrained", [*assignments, f"encoder={encoder}"]


def learn(
    options: "Options", folder: Path, anomalies: Path | None, checkpoint: Path, resume: bool, allow_collapse: bool
) -> "Fitted":
    """Fits, with the state of training kept beside the model."""
    from normscope.fitting import fit as fit_model
    from normscope.training.checkpoint import exists

    if resume and not exists(checkpoint):
        say(f"note: there is no {checkpoint} to go on from; training starts anew")
    if exists(checkpoint) and not resume:
        say(f"note: {checkpoint} of an interrupted fit is replaced; --resume would go on from it")
    try:
        with bars() as observer:
            return fit_model(
                folder,
                options,
                anomalies=anomalies,
                allow_collapse=allow_collapse,
                checkpoint=checkpoint,
                resume=resume,
                observer=observer,
            )
    except CollapseError as error:
        raise TrainingError(f"{error} (--allow-collapse)") from None
    except KeyboardInterrupt:
        if exists(checkpoint):
            say("the state of training is saved; the same command with --resume goes on from it")
        raise


def findings(fitted: "Fitted", folder: Path) -> dict[str, float | str | list[str]]:
    """What the user should know of a model; what is doubtful about it is said at once."""
    from normscope.images.notation import printable

    model, outliers = fitted.model, fitted.outliers
    assert model.calibration is not None
    data, training = model.card["data"], model.card["training"]
    if model.calibration.note:
        say(f"note: {model.calibration.note}")
    if data["skipped"]:
        say(f"note: {plural(data['skipped'], 'file')} skipped; `normscope doctor {folder}` says why")
    if training["epochs"] is None and 0 < training["steps"] < FEW_STEPS:
        say(f"note: there was time for {plural(training['steps'], 'training step')} only; give a larger --budget")
    if outliers:
        say(f"note: {plural(len(outliers), 'image')} may not be normal; the most surprising, with their scores:")
        for outlier in outliers[:SHOWN]:
            say(f"  {outlier.score:9.2f}  {printable(outlier.path) if outlier.path else outlier.position}")
    return {
        "images": data["images"],
        "skipped": data["skipped"],
        "seconds": round(fitted.seconds, 3),
        "threshold": model.calibration.threshold,
        "health": training["health"],
        "outliers": [str(outlier.path) for outlier in outliers],
    }


def promise(fitted: "Fitted") -> str:
    from normscope.calibration import percent

    assert fitted.model.calibration is not None
    return f"at most {percent(fitted.model.calibration.achievable)} of normal images"


def size_of(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if text.isdecimal():
        return int(text)
    raise SettingError(f"size is {text!r}; give auto or a number of pixels")
