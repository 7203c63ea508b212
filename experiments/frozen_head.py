"""Does anything that the objective trains improve on an ImageNet encoder that stays as it is? On development classes.

What the encoder sees of the images, in four rotations and in random views, is computed once, up to its last block. Then
a head on its codes, or that block with the head, is trained by I − β·H: to tell the rotation, or one view by another.
"""

import copy
import functools
import itertools
import time
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from figures import COLOURS, panels, save
from options import read_options
from torch import Tensor, nn
from torch.optim import AdamW

from normscope import datasets
from normscope.benchmark.metrics import auroc
from normscope.images.size import Auto
from normscope.intake import gather
from normscope.methods.surprisal import DOUBT_FLOOR, classified
from normscope.networks.pretrained import LITE0, Frozen, enlarged
from normscope.objective.critics import contrast, cosine
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.trade_off import TradeOff
from normscope.scoring.held_out import two_fold
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.tables.names import title
from normscope.training.batches import to_float
from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, random_view
from normscope.views.shifts import rotations

BETA, TEMPERATURE, VIEWS, BATCH = 0.1, 0.5, 4, 64
RATES = {"head": 1e-3, "last block": 1e-4}
CHANGES = {  # what is trained, and what for
    "nothing trained": None,
    "a head tells the rotation": ("head", "rotation"),
    "a head tells one view by another": ("head", "views"),
    "the last block tells the rotation": ("last block", "rotation"),
    "the last block tells one view by another": ("last block", "views"),
}

options = read_options(
    __doc__, "results/frozen_head.jsonl", "docs/frozen_head.png", ["fashion-mnist:1,4", "cifar10:5,8"]
)
torch.set_num_threads(options.threads)
side, steps, normals, tests = (32, 5, 40, 60) if options.quick else (96, 300, 1000, 2000)


class Seen(NamedTuple):
    """Images as they are before the last block: of n normal ones `turned` [4, n, …] and `views` [v, n, …]."""

    turned: Tensor
    views: Tensor
    tested: Tensor  # [4, m, …]
    labels: np.ndarray
    seconds: float


class Top(nn.Module):
    """The last block of the encoder: what comes before it → codes of length 1."""

    def __init__(self, encoder: Frozen) -> None:
        super().__init__()
        self.block, self.last = copy.deepcopy(encoder.network.stages[-1]), copy.deepcopy(encoder.network.head)
        self.requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(F.relu6(self.last(self.block(x))).mean((2, 3)), dim=1)


def below(encoder: Frozen, images: Tensor) -> Tensor:
    """What the encoder makes of images before its last block."""
    parts = []
    for some in images.split(32):
        x = F.relu6(encoder.network.stem(enlarged(some, (side, side))))
        for stage in encoder.network.stages[:-1]:
            x = stage(x)
        parts.append(x)
    return torch.cat(parts)


def train(top: Top, head: nn.Module, part: str, aim: str, seen: Seen) -> None:
    weights = [*head.parameters(), *(top.parameters() if part == "last block" else ())]
    optimizer, trade_off = AdamW(weights, RATES[part]), TradeOff(infonce, BETA)
    source = seen.turned if aim == "rotation" else seen.views
    for step in range(steps):
        chosen = torch.randperm(source.shape[1])[:BATCH]
        which = torch.arange(4) if aim == "rotation" else torch.randperm(VIEWS)[:2]
        z = top(source[which][:, chosen].flatten(0, 1))
        z = z if part == "last block" else z.detach()
        answers = head(z)
        if aim == "rotation":
            pair, code = classified(answers, which.repeat_interleave(len(chosen))), z
        else:
            pair, code = contrast(cosine(answers, answers, TEMPERATURE)), answers
        loss = trade_off([pair], laplace(code), step / steps)[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def parts_of(top: Top, head: nn.Module, trained: tuple[str, str] | None, turned: Tensor) -> tuple[Tensor, Tensor]:
    """The codes by which an image is surprising [n, d], and the head's doubts about its rotation [n]."""
    codes = top(turned[0])
    if trained == ("head", "views"):
        codes = head(codes)
    if trained is None or trained[1] == "views":
        return codes, torch.zeros(len(codes))
    doubts = [-head(top(x)).log_softmax(1)[:, turn] for turn, x in enumerate(turned)]
    return codes, torch.stack(doubts).mean(0)


@functools.lru_cache(maxsize=1)
def look(dataset: str, normal: int) -> Seen:
    task = datasets.load(dataset, options.data_root).task(normal)
    began = time.perf_counter()
    chosen = np.random.default_rng(0).choice(len(task.test_images), min(tests, len(task.test_images)), replace=False)
    known, new = (
        to_float(gather(images, Auto())[0][:], torch.device("cpu"))
        for images in (task.train_images[:normals], task.test_images[chosen])
    )
    with torch.no_grad(), seeded(0):
        turned, tested = (torch.stack([below(encoder, x) for x in rotations(images)]) for images in (known, new))
        views = torch.stack([below(encoder, random_view(known, Recipe())) for _ in range(VIEWS)])
    return Seen(turned, views, tested, task.test_labels.look()[chosen], time.perf_counter() - began)


def measure(dataset: str, normal: int, change: str) -> dict:
    seen, trained = look(dataset, normal), CHANGES[change]
    began = time.perf_counter()
    with seeded(0):
        top = Top(encoder)
        head = nn.Linear(1280, 4) if trained and trained[1] == "rotation" else projector()
        if trained:
            train(top, head, *trained, seen)
    with torch.no_grad():
        codes, doubts = parts_of(top, head, trained, seen.turned)
        new, new_doubts = parts_of(top, head, trained, seen.tested)
        usual = two_fold(codes, fit_gaussian, gaussian)
        surprisal = (gaussian(new, fit_gaussian(codes)) - usual.mean()) / usual.std()
        scores = surprisal + (new_doubts - doubts.mean()) / (doubts.std() + DOUBT_FLOOR)
    return {
        "seed": 0,
        "budget": None,
        "metrics": {
            "auroc": round(auroc(scores.numpy(), seen.labels), 6),
            "auroc_surprisal": round(auroc(surprisal.numpy(), seen.labels), 6),
        },
        "normals": seen.turned.shape[1],
        "tests": seen.tested.shape[1],
        "side": side,
        "steps": steps if trained else 0,
        "seconds": {"encoder": round(seen.seconds, 1), "training": round(time.perf_counter() - began, 1)},
    }


def projector() -> nn.Module:
    return nn.Sequential(nn.Linear(1280, 256), nn.ReLU(), nn.Linear(256, 128))


encoder = Frozen(LITE0, side, (side, side))
encoder.restore()
keys = [(*task, change) for task, change in itertools.product(options.tasks, CHANGES)]
found = options.lines(("dataset", "normal", "change"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks])
for number, (axis, task) in enumerate(zip(axes, options.tasks, strict=True)):
    values = [100 * found[*task, change]["metrics"]["auroc"] for change in reversed(CHANGES)]
    axis.barh(range(len(values)), values, color=COLOURS[0])
    axis.set_yticks(range(len(values)), list(reversed(CHANGES)) if number == 0 else [""] * len(values))
    axis.set(xlim=(50, 100), xlabel="AUROC in %")
save(figure, options.picture)
