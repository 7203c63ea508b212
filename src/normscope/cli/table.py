"""`normscope table`: what `normscope bench` measured, beside the paper's figures."""

from pathlib import Path
from typing import Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.options import Debug, Json
from normscope.cli.output import print_json
from normscope.errors import DatasetError, SettingError

FORMATS = ("markdown", "csv", "latex")


def table(
    files: Annotated[list[Path], typer.Argument(help="Results of `normscope bench`; of a cell in two, the last.")],
    format_: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    metric: Annotated[
        str, typer.Option(help="auroc, auprc, fpr95, tpr_at_fpr_01 or another that the results have.")
    ] = "auroc",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Mean, SD and every class of each method, beside the paper's figures."""
    with one_line_errors(debug):
        if format_ not in FORMATS:
            raise SettingError(f"no format {format_!r}; choose from {', '.join(FORMATS)}")
        from normscope.tables import layout
        from normscope.tables.table import tables
        from normscope.tables.variants import read

        by_dataset = tables(read(files), metric)
        if not by_dataset:
            raise DatasetError(f"no result in {', '.join(map(str, files))}; give a file that `normscope bench` wrote")
        if json:
            print_json(list(map(layout.as_json, by_dataset)))
        elif format_ == "csv":
            typer.echo(layout.csv_text(by_dataset), nl=False)
        else:
            write = layout.markdown if format_ == "markdown" else layout.latex
            typer.echo("\n".join(map(write, by_dataset)), nl=False)
