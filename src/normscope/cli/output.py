"""Results on standard output, everything else on standard error."""

import json

import typer


def say(message: str) -> None:
    """For people: on standard error, so that standard output holds the result alone."""
    typer.echo(message, err=True)


def complain(message: str) -> None:
    typer.secho("error: " + " ".join(message.split()), fg="red", err=True)


def print_json(result: object) -> None:
    typer.echo(json.dumps(result, allow_nan=False))


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
