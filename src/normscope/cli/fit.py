"""`normscope fit`: learn from a folder of normal images."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from normscope.cli.dry_run import show_forecast
from normscope.cli.ending import SOME_UNREADABLE, one_line_errors, rank_0_alone_speaks
from normscope.cli.opening import import_all
from normscope.cli.options import Debug, Device, Json
from normscope.cli.output import plural, print_json, say
from normscope.cli.progress import bars
from normscope.cli.targets import check_replaceable, check_writable
from normscope.errors import CollapseError, SettingError, TrainingError
from normscope.files import leftovers
from normscope.locks import sole_writer
from normscope.training.observer import Observer, Several

if TYPE_CHECKING:
    from normscope.fitting import Fitted
    from normscope.images.size import Size
    from normscope.options import Options
    from normscope.settings import JSON

FEW_STEPS = 100
SHOWN = 10  # outliers


class Given(NamedTuple):
    """What to learn from."""

    folder: Path
    anomalies: Path | list[Path] | None
    exclude_outliers: bool


class Course(NamedTuple):
    """How the training is begun, ended and followed."""

    resume: bool
    allow_collapse: bool
    track: str | None


def fit(
    folder: Annotated[Path, typer.Argument(help="Folder of normal images, searched through.")],
    model: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Model file to write.  [default: the folder's name with .safetensors, here]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="`normscope methods` lists them.  [default: auto]", show_default=False)
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="A pretrained encoder, used as it is: efficientnet-lite0 to -lite2, or one that timm knows."),
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="A setting of the method, key=value; may be repeated.")] = [],  # noqa: B006
    budget: Annotated[str | None, typer.Option(help="Train at most this long: 90s, 5m, 1h.  [default: 5m]")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Train this many epochs; with --budget, what ends first. 0: train nothing.")
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            help="Pixels to which images are resized: HEIGHTxWIDTH or the side of a square, 28 to 1024 each; "
            "auto is what is typical of the folder."
        ),
    ] = "auto",
    anomalies: Annotated[
        Path | None,
        typer.Option(
            help="Images known to be bad, for a method that makes use of them: a folder, or a CSV file of verdicts."
        ),
    ] = None,
    exclude_outliers: Annotated[
        bool, typer.Option("--exclude-outliers", help="Leave out images that may not be normal. They are listed.")
    ] = False,
    false_alarm_rate: Annotated[float, typer.Option(help="Share of normal images that may be flagged.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Governs everything that is random.", min=0)] = 0,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from where an interrupted fit stopped.")] = False,
    allow_collapse: Annotated[bool, typer.Option("--allow-collapse", help="Keep a model that collapsed.")] = False,
    track: Annotated[
        str | None, typer.Option(help="Keep losses, settings and card: tensorboard:FOLDER, or mlflow:URI.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and the time and memory it needs; write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Without -o: replace the model of that name.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn what normal images look like from a folder of them."""
    with rank_0_alone_speaks(debug), one_line_errors(debug):
        model = model or default_model(folder, force or dry_run)
        check_writable(model)
        import_all()
        from normscope.options import checked

        name, settings = chosen_method(method, encoder, set_)
        options = checked(
            name,
            settings=settings,
            seed=seed,
            budget=budget,
            epochs=epochs,
            size=size_of(size),
            false_alarm_rate=false_alarm_rate,
            device=device,
        )
        given = Given(folder, bad_images(anomalies), exclude_outliers)
        if dry_run:
            show_forecast(options, given, json)
        else:
            learn_and_tell(options, given, model, Course(resume, allow_collapse, track), json)


def learn_and_tell(options: "Options", given: Given, model: Path, course: Course, json: bool) -> None:
    """Fits, writes the model and says what came out; of several processes, the first alone."""
    from normscope.images.outcome import Kind
    from normscope.training.distributed import process_group, rank

    with process_group():
        if rank() > 0:
            learn(options, given, checkpoint_of(model), course._replace(track=None))
            return
        with sole_writer(model):
            for part in leftovers(model):
                part.unlink(missing_ok=True)
            fitted = learn(options, given, checkpoint_of(model), course)
            result = {"model": str(model), "sha256": save(fitted, model), **findings(fitted, given.folder)}
    if json:
        print_json(result)
    else:
        print(f"learnt from {result['images']} images in {result['seconds']:.0f} s; health: {result['health']}")
        print(result["promise"])
        print(f"wrote {model} ({megabytes(model)})")
    if any(one.kind is Kind.UNREADABLE for one in fitted.left_out):
        raise typer.Exit(SOME_UNREADABLE)


def chosen_method(method: str | None, encoder: str | None, assignments: list[str]) -> "tuple[str, dict[str, JSON]]":
    """The method and its settings. Without `--method`, `--encoder` chooses `pretrained`, whose setting it is, and other
    settings choose `surprisal`; `auto` has none."""
    from normscope.methods import settings_of
    from normscope.settings import parse, to_json

    if encoder is None:
        name = method or ("surprisal" if assignments else "auto")
    elif method in (None, "pretrained"):
        name, assignments = "pretrained", [*assignments, f"encoder={encoder}"]
    else:
        raise SettingError(f"the method {method} has no pretrained encoder; leave out --method or --encoder")
    return name, to_json(parse(settings_of(name), assignments))


def checkpoint_of(model: Path) -> Path:
    return model.with_name(model.name + ".checkpoint")


def learn(options: "Options", given: Given, checkpoint: Path, course: Course) -> "Fitted":
    """Fits, with the state of training kept beside the model."""
    from normscope.fitting import fit as fit_model
    from normscope.tracking import tracker
    from normscope.training.checkpoint import exists

    if course.resume and not exists(checkpoint):
        say(f"note: there is no {checkpoint} to go on from; training starts anew")
    if exists(checkpoint) and not course.resume:
        say(f"note: {checkpoint} of an interrupted fit is replaced; --resume would go on from it")
    try:
        with tracker(course.track, warn) if course.track else nullcontext(Observer()) as tracking, bars() as shown:
            return fit_model(
                given.folder,
                options,
                anomalies=given.anomalies,
                allow_collapse=course.allow_collapse,
                exclude_outliers=given.exclude_outliers,
                checkpoint=checkpoint,
                resume=course.resume,
                observer=Several([shown, tracking]),
            )
    except CollapseError as error:
        raise TrainingError(f"{error} (--allow-collapse)") from None
    except KeyboardInterrupt:
        if exists(checkpoint):
            say("the state of training is saved; the same command with --resume goes on from it")
        raise


def warn(text: str) -> None:
    say(f"warning: {text}")


def save(fitted: "Fitted", model: Path) -> str:
    """The checksum. The checkpoint is removed afterwards: until the model is written, it is all there is."""
    from normscope.training.checkpoint import remove

    checksum = fitted.model.save(model)
    remove(checkpoint_of(model))
    return checksum


def default_model(folder: Path, force: bool) -> Path:
    """good/ → good.safetensors, where the command was given."""
    name = folder.resolve().name
    if not name:
        raise SettingError(f"{folder} has no name that a model could have; give one with -o")
    model = Path(f"{name}.safetensors")
    check_replaceable(model, force)
    return model


def bad_images(anomalies: Path | None) -> Path | list[Path] | None:
    """The folder itself, or what a CSV file of verdicts calls anomalous."""
    if anomalies is None or anomalies.suffix.lower() != ".csv":
        return anomalies
    from normscope.recalibration import read_verdicts

    found = read_verdicts(anomalies).anomalous
    if not found:
        raise SettingError(f"{anomalies} calls no image anomalous; leave --anomalies out")
    return found


def findings(fitted: "Fitted", folder: Path) -> dict[str, float | str | list[str]]:
    """What the user should know of a model; what is doubtful about it is said at once."""
    from normscope.images.notation import printable

    model, outliers = fitted.model, fitted.outliers
    assert model.calibration is not None
    data, training = model.card["data"], model.card["training"]
    if model.card["summary"]:
        say(model.card["summary"])
    if model.calibration.note:
        say(f"note: {model.calibration.note}")
    if data["skipped"]:
        say(f"note: {plural(data['skipped'], 'file')} skipped; `normscope doctor {folder}` says why")
    if training["epochs"] is None and 0 < training["steps"] < FEW_STEPS:
        say(f"note: there was time for {plural(training['steps'], 'training step')} only; give a larger --budget")
    if outliers:
        remedy = "left out" if data["excluded"] else "take those out that are not, or --exclude-outliers"
        say(f"note: {plural(len(outliers), 'image')} may not be normal ({remedy}); the most surprising, with scores:")
        for outlier in outliers[:SHOWN]:
            say(f"  {outlier.score:9.2f}  {printable(outlier.path) if outlier.path else outlier.position}")
        spared = model.calibration.threshold_without([outlier.score for outlier in outliers])
        if spared is not None and spared < model.calibration.threshold:
            say(f"note: with them the threshold is {model.calibration.threshold:.4g}, without them {spared:.4g}")
    return {
        "images": data["images"],
        "skipped": data["skipped"],
        "seconds": round(fitted.seconds, 3),
        "threshold": model.calibration.threshold,
        "promise": model.calibration.promise,
        "health": training["health"],
        "excluded": data["excluded"],
        "outliers": [str(outlier.path) for outlier in outliers],
    }


def megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def size_of(text: str) -> "int | Size | Literal['auto']":
    if text == "auto":
        return "auto"
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() for side in sides):
        raise SettingError(f"size is {text!r}; give auto, a number of pixels, or HEIGHTxWIDTH such as 224x560")
    return int(text) if len(sides) == 1 else (int(sides[0]), int(sides[1]))
