"""`normscope table`: what `normscope bench` measured, beside the paper's figures."""

from pathlib import Path
from typing import Annotated

import typer

from normscope.cli.output import Debug, Json, one_line_errors, print_json
from normscope.errors import DatasetError, SettingError

FORMATS = ("markdown", "csv", "latex")


def table(
    files: Annotated[list[Path], typer.Argument(help="Results of `normscope bench`; of a cell in two, the last.")],
    format_: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    metric: Annotated[str, typer.Option(help="auroc, auprc or fpr95, or another that the rows have.")] = "auroc",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Mean, SD and every class of each method, beside the paper's figures."""
    with one_line_errors(debug):
        if format_ not in FORMATS:
            raise SettingError(f"no format {format_!r}; choose from {', '.join(FORMATS)}")
        from normscope.evaluation import layout
        from normscope.evaluation.rows import read
        from normscope.evaluation.tables import tables

        found = tables(read(files, metric), metric)
        if not found:
            raise DatasetError(f"no row in {', '.join(map(str, files))}; give a file that `normscope bench` wrote")
        if json:
            print_json([layout.as_json(one) for one in found])
        elif format_ == "csv":
            typer.echo(layout.csv_text(found), nl=False)
        else:
            write = layout.markdown if format_ == "markdown" else layout.latex
            typer.echo("\n".join(map(write, found)), nl=False)
