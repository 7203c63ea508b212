"""`normscope serve`: models over HTTP, with a page to drop images on."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.opening import import_all, open_model
from normscope.cli.options import Debug, Device, Json, OtherRate
from normscope.cli.output import print_json, say
from normscope.errors import NormscopeError
from normscope.images.notation import printable

if TYPE_CHECKING:
    from normscope.model import Model

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    models: Annotated[
        list[Path], typer.Argument(help="Model files, of `fit` or `export`; each is served under its file's name.")
    ],
    host: Annotated[str, typer.Option(envvar="NORMSCOPE_HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="NORMSCOPE_PORT", min=0, max=65535, help="0 is any that is free.")] = 8000,
    max_body_mb: Annotated[
        float, typer.Option(envvar="NORMSCOPE_MAX_BODY_MB", min=0.001, max=10_000, help="Size of a request, in MB.")
    ] = 20,
    max_megapixels: Annotated[
        float,
        typer.Option(envvar="NORMSCOPE_MAX_MEGAPIXELS", min=0.001, max=150, help="Size of an image, in millions."),
    ] = 50,
    max_seconds: Annotated[
        float, typer.Option(envvar="NORMSCOPE_MAX_SECONDS", min=0.1, max=3600, help="Time for the answer to a request.")
    ] = 30,
    max_queued: Annotated[
        int, typer.Option(envvar="NORMSCOPE_MAX_QUEUED", min=1, max=10_000, help="Requests that may wait to be scored.")
    ] = 64,
    history: Annotated[
        int, typer.Option(envvar="NORMSCOPE_HISTORY", min=0, max=10_000, help="Results kept in memory for the page.")
    ] = 100,
    token: Annotated[
        str | None, typer.Option(envvar="NORMSCOPE_TOKEN", help="Ask for this bearer token; better in the variable.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(envvar="NORMSCOPE_TOKEN_FILE", help="The same; the token is the content of this file."),
    ] = None,
    false_alarm_rate: OtherRate = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve models over HTTP until Ctrl-C or SIGTERM: a page to drop images on, POST /score, and the Open Inference
    Protocol. Scores are those of `normscope score`. Every limit can be given by its environment variable too.
    """
    with one_line_errors(debug):
        files = named(models)
        token = chosen_token(token, token_file)
        check_installed()
        import_all()
        from normscope.export.exported import checksum_of
        from normscope.server.app import make_app
        from normscope.server.limits import MB, Limits
        from normscope.server.process import listen, run

        for path in files.values():
            checksum_of(path)  # a wrong path is said at once

        def load_all() -> "dict[str, Model]":
            return {name: open_model(path, device, false_alarm_rate) for name, path in files.items()}

        limits = Limits(round(max_body_mb * MB), round(max_megapixels * 1e6), max_seconds, max_queued, history)
        app = make_app(load_all, limits, token)
        with listen(host, port) as listening:
            announce(files, host, listening.getsockname()[1], limits.history if token is None else 0, json)
            run(app, listening)


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Model files by name, in order."""
    names: dict[str, Path] = {}
    for path in paths:
        name = path.stem
        if name in names:
            raise NormscopeError(f"{printable(names[name])} and {printable(path)} have one name; rename one of them")
        names[name] = path
    return names


def chosen_token(token: str | None, file: Path | None) -> str | None:
    """A file is not seen by whoever lists processes, and can be a secret that a container mounts."""
    if file is not None:
        if token is not None:
            raise NormscopeError("there are a token and a file of one; give --token, NORMSCOPE_TOKEN or --token-file")
        token = file.read_text(encoding="utf-8", errors="replace").strip()
    check_token(token)
    return token


def check_token(token: str | None) -> None:
    if token is not None and (not token.isascii() or not token.isprintable() or not token.strip() or " " in token):
        raise NormscopeError("the token is empty, or has characters that no header can carry; use letters and digits")


def check_installed() -> None:
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"serve needs {error.name}; pip install 'normscope[serve]'") from error


def announce(files: dict[str, Path], host: str, port: int, open_history: int, json: bool) -> None:
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if json:
        print_json({"url": url, "models": list(files)})
    say(f"serving {', '.join(map(printable, files))} at {url} (Ctrl-C stops)")
    if host not in LOOPBACK and open_history:
        say("note: whoever can reach this address can score images and see the latest; --token asks for a token")
