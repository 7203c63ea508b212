"""`normscope methods`: what there is, one line each."""

from typing import Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.options import Debug, Json
from normscope.cli.output import print_json


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, to list its settings and their defaults.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the methods, or the settings of one."""
    with one_line_errors(debug):
        from normscope.methods import find, method_names, settings_of
        from normscope.settings import JSON, to_json

        if name is None:
            listed: dict[str, JSON] = {one: (find(one).__doc__ or "").splitlines()[0] for one in method_names()}
            width = max(map(len, listed))
            shown = [f"{one:<{width}}  {summary}" for one, summary in listed.items()]
        else:
            find(name)
            listed = to_json(settings_of(name)())
            shown = [f"{key}={value}" for key, value in listed.items()]
        if json:
            print_json(listed)
        else:
            print("\n".join(shown))
