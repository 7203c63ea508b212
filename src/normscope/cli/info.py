"""`normscope info`: the card of a model file."""

from collections.abc import Mapping

from normscope.cli.ending import one_line_errors
from normscope.cli.options import Debug, Json, ModelFile
from normscope.cli.output import print_json
from normscope.images.notation import printable


def info(
    model: ModelFile,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a model was fitted on, with which settings, how it is calibrated, and its checksum."""
    with one_line_errors(debug):
        from normscope.export.exported import read_card

        read, checksum = read_card(model)
        card = {**read, "sha256": checksum}
        if json:
            print_json(card)
        else:
            print_card(card)


def print_card(card: Mapping[str, object], indent: str = "") -> None:
    for name, value in card.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}:")
            print_card(value, indent + "  ")
        else:
            print(f"{indent}{name}: {printable(str(value))}")
