"""Results on standard output, everything else on standard error."""

import json
from collections.abc import Iterable

import typer


def say(message: str) -> None:
    """For people: on standard error, so that standard output holds the result alone."""
    typer.echo(message, err=True)


def complain(message: str) -> None:
    typer.secho("error: " + " ".join(message.split()), fg="red", err=True)


def print_json(result: object) -> None:
    typer.echo(json.dumps(result, allow_nan=False))


def print_json_list(items: Iterable[object]) -> None:
    """As `print_json` of a list, of which only one item needs to be in memory."""
    print("[", end="")
    for position, item in enumerate(items):
        print(", " if position else "", json.dumps(item, allow_nan=False), sep="", end="")
    print("]")


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
