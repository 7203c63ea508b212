"""`auto`: which method suits a folder, by what its images are; no label is looked at."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from normscope.images.size import SMALL
from normscope.images.store import Store
from normscope.intake import Images, peek
from normscope.methods import AUTO, settings_of
from normscope.networks.pretrained import LITE0, LITE2
from normscope.options import Options
from normscope.settings import build

FEW = 2000  # images
MANY = 10_000  # so that an encoder would take longer than all else


class Choice(NamedTuple):
    """A method, why it was chosen, for people, and settings other than its defaults."""

    method: str
    why: str
    settings: Mapping[str, object] = {}


def resolved(options: Options, images: Images, anomalies: bool) -> tuple[Options, str | None]:
    """The options with a method of their own in place of `auto`, and why that one; as they are if they name one."""
    if options.method != AUTO:
        return options, None
    if options.size == "auto" or options.size[0] == options.size[1]:
        choice = choose(*peek(images), anomalies)
    else:
        choice = seen_by_encoder("the size asked for is not a square", min(options.size) <= SMALL)
    settings = build(settings_of(choice.method), choice.settings)
    return replace(options, method=choice.method, settings=settings), choice.why


def choose(some: Store, images: int, anomalies: bool) -> Choice:
    """By a few of so many images, and whether there are labelled anomalies to learn from.

    An encoder that learnt from photographs in colour sees more than one that learns from a few hundred images. Small
    grey images, as digits, clothes and small x-rays are, are unlike photographs: a network learns from them, and the
    encoder gives half of the score unless there are very many. Of thousands, the complete objective of `base` learns
    as much as `surprisal` in less time (docs/theory.md).
    """
    if anomalies:
        return Choice("surprisal", "it learns from labelled anomalies too")
    small = len(some) > 0 and median(map(min, some.shapes)) <= SMALL
    if small and some.grey:
        unlike, half = "the images are small and grey, unlike what a pretrained encoder has seen", {"pretrained": LITE0}
        if images <= FEW:
            return Choice("surprisal", f"{unlike}, and few, so half of the score is such an encoder's", half)
        if images <= MANY:
            return Choice("base", f"{unlike}; half of the score is such an encoder's", {"score": "surprisal", **half})
        return Choice("base", unlike, {"score": "surprisal"})
    kind = "small pictures in colour" if small else "photographs"
    return seen_by_encoder(f"the images are {kind}, which an encoder that learnt from ImageNet can describe", small)


def seen_by_encoder(why: str, small: bool) -> Choice:
    """Small defects are found better by the larger encoder; small pictures are enlarged, which takes time enough."""
    return Choice("pretrained", why, {"encoder": LITE0 if small else LITE2})
