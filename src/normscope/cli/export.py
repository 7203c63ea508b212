"""`normscope export`: a model as an ONNX or OpenVINO graph."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.opening import import_all
from normscope.cli.options import Debug, FittedFile, Json
from normscope.cli.output import plural, print_json, say
from normscope.cli.progress import bars
from normscope.cli.targets import check_writable
from normscope.errors import ImageFolderError, SettingError
from normscope.images.notation import printable

if TYPE_CHECKING:
    from normscope.export.exported_file import Pixels
    from normscope.images.size import Size

MOST_IMAGES = 64  # of a folder, for the comparison


def export(
    model: FittedFile,
    to: Annotated[str, typer.Option(help="onnx or openvino.")] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write, .onnx or .xml; else the model's name, in this folder."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Compare on images of this folder, too.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model as a graph that scores without normscope: pixels in, score, p-value, verdict and heat map out.

    Graph and model score the same images first; the largest difference is printed and kept in the file. If it is above
    a thousandth of the spread of normal scores, nothing is written. `normscope score` takes the file like a model.
    """
    with one_line_errors(debug):
        import_all()
        from normscope.export.exporting import check_target
        from normscope.export.exporting import export as write
        from normscope.export.parity import TOLERANCE
        from normscope.model import load

        path = out or default_path(model, to)
        check_target(to, path)
        check_writable(path)
        start, fitted = time.monotonic(), load(model, device="cpu")
        with bars() as observer:
            parity = write(fitted, to, path, read_some(images, fitted.size) if images else None, observer)
        if fitted.method.explains_by_gradient:
            say(f"note: heat maps of {fitted.card['method']} take gradients and are no part of the graph")
        if json:
            print_json({"file": str(path), "to": to, "seconds": time.monotonic() - start, **parity._asdict()})
        else:
            print(
                f"on {plural(parity.images, 'image')} scores differ from the model's by {parity.largest:.1g} at most, "
                f"{parity.relative:.1g} of their scale ({TOLERANCE:g} is allowed)"
            )
            print(f"wrote {printable(path)}")


def default_path(model: Path, to: str) -> Path:
    """In the current folder, and never over a file that is there."""
    from normscope.export.exporting import FORMATS

    if to not in FORMATS:
        raise SettingError(f"no format {to!r}; choose from {', '.join(FORMATS)}")
    path = Path(model.with_suffix(FORMATS[to].suffix).name)
    if path.exists():
        raise SettingError(f"{path} exists; name the file to write with -o")
    return path


def read_some(folder: Path, size: "Size") -> "Pixels":
    """[n, h, w, 3]: images that can be read, at equal distances in the folder."""
    from normscope.images import store
    from normscope.images.folder import check_path, scan
    from normscope.images.outcome import Kind

    check_path(folder)
    paths = [one.path for one in scan(folder) if one.kind is Kind.IMAGE]
    pixels, _ = store.from_paths(paths[:: len(paths) // MOST_IMAGES + 1], size)
    if len(pixels) == 0:
        raise ImageFolderError(f"{folder} has no readable image; `normscope doctor {folder}` lists why")
    return pixels[:].transpose(0, 2, 3, 1)
