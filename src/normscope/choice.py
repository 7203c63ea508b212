"""`auto`: which method suits a folder, by what its images are; no label is looked at."""

from dataclasses import replace
from statistics import median
from typing import NamedTuple

from normscope.images.store import Store
from normscope.intake import Images, peek
from normscope.methods import AUTO, settings_of
from normscope.options import Options

SMALL = 64  # pixels on the shorter side


class Choice(NamedTuple):
    """A method, and why it was chosen, for people."""

    method: str
    why: str


def resolved(options: Options, images: Images, anomalies: bool) -> tuple[Options, str | None]:
    """The options with a method of their own in place of `auto`, and why that one; as they are if they name one."""
    if options.method != AUTO:
        return options, None
    square = options.size == "auto" or options.size[0] == options.size[1]
    choice = choose(peek(images), anomalies) if square else Choice("pretrained", "the size asked for is not a square")
    return replace(options, method=choice.method, settings=settings_of(choice.method)()), choice.why


def choose(some: Store, anomalies: bool) -> Choice:
    """By a few of the images, and whether there are labelled anomalies to learn from.

    An encoder that learnt from photographs in colour sees more than one that learns from a few hundred images, except
    where these are unlike photographs: small and grey, as digits, clothes and small x-rays are.
    """
    if anomalies:
        return Choice("surprisal", "it learns from labelled anomalies too")
    if len(some) and median(map(min, some.shapes)) <= SMALL and some.grey:
        return Choice("surprisal", "the images are small and grey, unlike what a pretrained encoder has seen")
    kind = "small pictures in colour" if len(some) and median(map(min, some.shapes)) <= SMALL else "photographs"
    return Choice("pretrained", f"the images are {kind}, which an encoder that learnt from ImageNet can describe")
