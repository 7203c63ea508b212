"""Arguments and options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
FittedFile = Annotated[Path, typer.Argument(help="Model file that `normscope fit` wrote.")]
ModelFile = Annotated[Path, typer.Argument(help="Model file that `normscope fit` or `export` wrote.")]
OtherRate = Annotated[
    float | None, typer.Option(help="Share of normal images that may be flagged, in place of the model's own.")
]
DataRoot = Annotated[Path | None, typer.Option(envvar="NORMSCOPE_DATA", help="Where the data sets lie.")]
