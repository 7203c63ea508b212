"""`normscope datasets`: what there is, what each is made of, and getting it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.options import DataRoot, Debug, Json
from normscope.cli.output import print_json, say
from normscope.errors import DatasetError, SettingError

if TYPE_CHECKING:
    from normscope.datasets.fetch import DownloadCallback
    from normscope.datasets.published import Published


class Action(StrEnum):
    LIST = "list"
    SHOW = "show"
    FETCH = "fetch"


def datasets(
    action: Annotated[
        Action, typer.Argument(help="List all, show one, or fetch one: download and verify.")
    ] = Action.LIST,
    name: Annotated[str | None, typer.Argument(help="The data set to show or to fetch.")] = None,
    data_root: DataRoot = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the data sets, show what one is made of, or fetch one."""
    with one_line_errors(debug):
        if action is Action.LIST:
            if name is not None:
                raise SettingError(f"list takes no name; `normscope datasets show {name}` is about one data set")
            list_all(data_root, json)
        elif name is None:
            from normscope.datasets import names

            raise SettingError(f"{action.value} needs the name of a data set; choose from {', '.join(names())}")
        elif action is Action.SHOW:
            show(name, data_root, json)
        else:
            fetch_files(name, data_root, json)


def list_all(root: Path | None, json: bool) -> None:
    from normscope.datasets import about, names, summary

    lacking = {name: lacks(about(name), root) for name in names()}
    if json:
        print_json(
            {
                name: {"summary": summary(name), "complete": not files, "missing": files}
                for name, files in lacking.items()
            }
        )
        return
    width = max(map(len, lacking))
    for name, files in lacking.items():
        state = "found" if not files else "incomplete" if len(files) < len(about(name).files) else "not found"
        print(f"{name:<{width}}  {state:<10}  {summary(name)}")


def lacks(source: "Published", root: Path | None) -> list[str]:
    """Which files are missing: all of them if there is no data root."""
    from normscope.datasets.published import missing

    try:
        return missing(source, root)
    except DatasetError:
        return list(source.files)


def show(name: str, root: Path | None, json: bool) -> None:
    from normscope.datasets import about, summary

    source = about(name)
    lacking, classes = lacks(source, root), known_classes(name, root)
    if json:
        print_json(
            {
                "name": name,
                "summary": summary(name),
                "published": source.home,
                "folder": folder_of(source, root),
                "files": source.files,
                "missing": lacking,
                "downloads": {download.url: download.md5 for download in source.downloads},
                "by_hand": source.by_hand,
                "classes": classes,
            }
        )
        return
    print(summary(name))
    print(f"published: {source.home}")
    if source.files:
        print(f"files in {folder_of(source, root)}:")
    for file, md5 in source.files.items():
        print(f"  {file}{f'  MD5 {md5}' if md5 else ''}{'  (missing)' if file in lacking else ''}")
    for download in source.downloads:
        print(f"download: {download.url}  MD5 {download.md5}")
    if source.by_hand:
        print(f"by hand: {source.by_hand}")
    print_classes(classes)


def folder_of(source: "Published", root: Path | None) -> str:
    return str((root or Path("$NORMSCOPE_DATA")) / source.folder)


def known_classes(name: str, root: Path | None) -> dict[str, list[str]] | None:
    from normscope.datasets import classes

    try:
        return classes(name, root)
    except DatasetError as error:
        say(f"which classes there are is known once the files are: {error}")
        return None


def print_classes(classes: dict[str, list[str]] | None) -> None:
    if classes is None:
        return
    print("classes:")
    for number, (one, members) in enumerate(classes.items()):
        print(f"  {number}  {one}")
        for member in members:
            print(f"       {member}")


def fetch_files(name: str, root: Path | None, json: bool) -> None:
    from normscope.datasets import about
    from normscope.datasets.fetch import fetch

    with download_bar() as progress:
        folder = fetch(about(name), root, progress)
    if json:
        print_json({"name": name, "folder": None if folder is None else str(folder)})
    else:
        print(f"{name} needs no files" if folder is None else folder)


@contextmanager
def download_bar() -> Iterator["DownloadCallback"]:
    """A bar for each download on a terminal, elsewhere a line."""
    tasks: dict[str, int] = {}
    if not sys.stderr.isatty():

        def tell(url: str, done: int, total: int | None) -> None:
            if url not in tasks:
                tasks[url] = 0
                say(f"fetching {url}{'' if total is None else f', {total / 1e6:.1f} MB'}")

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def move(url: str, done: int, total: int | None) -> None:
            if url not in tasks:
                tasks[url] = bar.add_task(url.rpartition("/")[2], total=total)
            bar.update(TaskID(tasks[url]), completed=done, total=total)

        yield move
