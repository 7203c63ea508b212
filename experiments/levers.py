"""What was tried on the way to `surprisal`, each change by itself against the method as it is, on development classes.

Changes that are settings are measured too, so that one table has them all. AUROC on all test images of the class.
"""

import copy
import itertools
import time

import torch
import torch.nn.functional as F
from figures import COLOURS, panels, save
from options import read_options
from torch import nn
from torch.optim import AdamW

from normscope import datasets
from normscope.benchmark.metrics import auroc
from normscope.intake import gather
from normscope.methods.surprisal import Settings, Surprisal, told
from normscope.objective.critics import cosine
from normscope.settings import build, to_json
from normscope.tables.names import title
from normscope.training import loop
from normscope.training.batches import InOrder
from normscope.training.randomness import seeded


class AdamWAlone(Surprisal):
    def optimizers(self, phase):
        return {"all": AdamW(self.parameters(), self.settings.learning_rate, weight_decay=self.settings.weight_decay)}


class WholeImageAlone(Surprisal):
    """The head is not asked of locations."""

    def answers(self, z, local, answer):
        return [told(self.head(z), answer)]


class FullSize(Surprisal):
    """The first convolution keeps the size of the image."""

    def __init__(self, settings, shape):
        super().__init__(settings, shape)
        self.encoder.stem = nn.Conv2d(shape[0], settings.width, 3, padding=1, bias=False)


class Translations(Surprisal):
    """Rotated images are also moved by a quarter of their side, and two more heads tell where to."""

    def __init__(self, settings, shape):
        super().__init__(settings, shape)
        self.right, self.down = (nn.Linear(self.encoder.dimension, 3) for _ in range(2))

    def turned(self, images):
        if not self.training:
            return super().turned(images)
        turned = super().turned(images)
        self.moves = torch.randint(3, (2, sum(map(len, turned))))
        return list(moved(torch.cat(turned), self.moves - 1).split(len(images)))

    def answers(self, z, local, answer):
        right, down = self.moves
        return [*super().answers(z, local, answer), told(self.right(z), right), told(self.down(z), down)]


def moved(images, moves):
    """By −1, 0 or 1 quarters of the side, right and down; from beyond the edge comes the mirror image."""
    n, _, side, _ = images.shape
    by = side // 4
    padded = F.pad(images, (by, by, by, by), mode="reflect")
    columns, rows = (torch.arange(side) + by - by * steps[:, None] for steps in moves)
    return padded[torch.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Unilateral(Surprisal):
    """All unrotated images are positives of each other, and a rotated image is a class of its own (UniCon-HA)."""

    def views(self, z, answer):
        scores, n = cosine(z, z, self.settings.temperature), len(z)
        other_view = torch.arange(n).roll(n // 2)
        same = torch.zeros(n, n, dtype=torch.bool)
        same[torch.arange(n), other_view] = True
        same |= (answer[:, None] == 0) & (answer[None] == 0)
        same.fill_diagonal_(False)
        negative = ~same
        negative.fill_diagonal_(False)
        anchors, positives = same.nonzero(as_tuple=True)
        # A row for each positive, and the normal images together weigh as much as they would with one positive each.
        keep = torch.rand(len(anchors)) < 1 / same.sum(1)[anchors]
        anchors, positives = anchors[keep], positives[keep]
        left_out = scores.masked_fill(~negative, -50.0)  # e⁻⁵⁰ of a negative
        return [(scores[anchors, positives], left_out[anchors])]


class Averaged(Surprisal):
    """Scores with a moving average of the weights."""

    def step(self, images, optimizers, progress):
        record = super().step(images, optimizers, progress)
        now = self.state_dict()
        self.average = getattr(self, "average", None) or copy.deepcopy(now)
        for name, value in now.items():
            if value.is_floating_point():
                self.average[name].lerp_(value, 0.01)
        return record

    def finish(self, batches):
        self.load_state_dict({**self.state_dict(), **self.average})
        super().finish(batches)


class NormTimesCosine(Surprisal):
    """Scores as CSI does: −norm × largest cosine to a training image's code, mean over rotations."""

    def codes(self, images):
        return torch.stack([self.encoder(turned).code for turned in self.turned(images)], 1)

    def finish(self, batches):
        self.memory = {"codes": torch.cat([self.codes(images) for images in batches])}

    def score(self, images):
        codes, known = self.codes(images), F.normalize(self.memory["codes"], dim=2)
        nearest = torch.einsum("ntd,mtd->nmt", F.normalize(codes, dim=2), known).amax(1)
        return -(codes.norm(dim=2) * nearest).mean(1)


CHANGES: dict[str, tuple[type[Surprisal], dict[str, object], int]] = {  # class, settings, networks that share the time
    "nothing": (Surprisal, {}, 1),
    "AdamW for convolutions too": (AdamWAlone, {}, 1),
    "head asked of the whole image alone": (WholeImageAlone, {}, 1),
    "two views and their contrast": (Surprisal, {"contrast": True}, 1),
    "two views, unilateral contrast": (Unilateral, {"contrast": True}, 1),
    "contrast alone, no rotations": (Surprisal, {"contrast": True, "shifts": "none"}, 1),
    "translations told as well": (Translations, {}, 1),
    "first convolution keeps the size": (FullSize, {}, 1),
    "two networks, half the time each": (Surprisal, {}, 2),
    "moving average of the weights": (Averaged, {}, 1),
    "norm × cosine as score": (NormTimesCosine, {}, 1),
    "nearest neighbours as reference": (Surprisal, {"reference": "neighbours"}, 1),
    "no entropy, no third term": (Surprisal, {"beta": 0.0, "gamma": 0.0}, 1),
    "width 16": (Surprisal, {"width": 16}, 1),
    "width 32": (Surprisal, {"width": 32}, 1),
    "batches of 16": (Surprisal, {"batch_size": 16}, 1),
}
DEVELOPMENT = ("mnist:7", "fashion-mnist:4", "cifar10:5,8")

options = read_options(__doc__, "results/levers.jsonl", "docs/levers.png", DEVELOPMENT)
torch.set_num_threads(options.threads)


def measure(change: str, dataset: str, normal: int, seed: int) -> dict:
    variant, given, networks = CHANGES[change]
    settings = build(Settings, {**given, "width": 16, "batch_size": 16} if options.quick else given)
    task = datasets.load(dataset, options.data_root).task(normal)
    train, _ = gather(task.train_images, "auto")
    test, _ = gather(task.test_images, train.size)
    scores, steps, began = 0.0, 0, time.perf_counter()
    for network in range(networks):
        with seeded(seed, network):
            method = variant(settings, (3, train.size, train.size))
        budget = options.budget / networks if options.budget else None
        steps += loop.fit(method, train, loop.Plan(seed + network, options.epochs, budget)).steps
        with torch.inference_mode():
            batches = InOrder(test, 128, torch.device("cpu"))
            scores = scores + torch.cat([method.score(images) for images in batches]).double().numpy()
    return {
        "method": "surprisal",
        "settings": to_json(settings),
        "metrics": {"auroc": round(auroc(scores, task.test_labels.look()), 6)},
        "steps": steps,
        "seconds": round(time.perf_counter() - began, 1),
    }


keys = [(change, *task, seed) for change, task, seed in itertools.product(CHANGES, options.tasks, range(options.seeds))]
found = options.lines(("change", "dataset", "normal", "seed"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks], height=1.5 + 0.2 * len(CHANGES))
for number, (axis, task) in enumerate(zip(axes, options.tasks, strict=True)):
    for place, change in enumerate(reversed(CHANGES)):
        values = [100 * found[change, *task, seed]["metrics"]["auroc"] for seed in range(options.seeds)]
        axis.plot(values, [place] * len(values), "o", color=COLOURS[change != "nothing"])
    axis.set_yticks(range(len(CHANGES)), list(reversed(CHANGES)) if number == 0 else [""] * len(CHANGES))
    axis.set(xlabel="AUROC in %")
save(figure, options.picture)
