"""A page for each method, from its class and its settings, and one that lists them all."""

import dataclasses
import inspect

from normscope.methods import file_of, files, find, method_names, settings_of
from normscope.settings import describe, fields, to_json

ABILITIES = {
    "heat maps": lambda method: method.explains,
    "heat maps on the scale of normal images": lambda method: method.scaled_heat,
    "codes": lambda method: method.has_codes,
    "learns from labelled anomalies": lambda method: method.takes_anomalies,
    "takes images that are not square": lambda method: method.rectangles,
}


def pages() -> dict[str, str]:
    return {"methods/index.md": index(), **{f"methods/{name}.md": page(name) for name in method_names()}}


def index() -> str:
    rows = [f"| [`{name}`]({name}.md) | {cell(first_line(name))} |" for name in method_names()]
    return "\n".join(
        [
            "# Methods",
            "",
            "`auto`, the default, is none of them: it [chooses one for the folder](../auto.md). How well each does",
            "is in [the results](../results.md#table-3-all-methods-all-classes-one-minute-each).",
            "",
            "| method | what it does |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )


def page(name: str) -> str:
    method, settings = find(name), settings_of(name)
    abilities = [what for what, able in ABILITIES.items() if able(method) is True]
    return "\n".join(
        [
            f"# `{name}`",
            "",
            f"*{inspect.getdoc(file_of(name))}*",
            "",
            inspect.getdoc(method) or "",
            "",
            "```sh",
            f"normscope fit good/ --method {name}",
            "```",
            "",
            *([f"**Can:** {', '.join(abilities)}.", ""] if abilities else []),
            f"**File:** `src/normscope/methods/{files()[name]}.py`",
            "",
            "## Settings",
            "",
            inspect.getdoc(settings) or "",
            "",
            "| `--set` | default | may be |",
            "| --- | --- | --- |",
            *setting_rows(settings),
            "",
        ]
    )


def setting_rows(settings: type) -> list[str]:
    """One for each field, in their order."""
    defaults, kinds = to_json(settings()), fields(settings)
    return [
        f"| `{field.name}` | `{shown(defaults[field.name])}` | {cell(describe(kinds[field.name]))} |"
        for field in dataclasses.fields(settings)
    ]


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def first_line(name: str) -> str:
    return (find(name).__doc__ or "").splitlines()[0]


def cell(text: str) -> str:
    return text.replace("|", "\\|")
