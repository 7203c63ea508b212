"""What was tried on the way to `surprisal`, each change by itself against the method as it is, on development classes.

Changes that are settings are measured too, so that one table has them all. AUROC on all test images of the class.
"""

import itertools
import time

import torch
import torch.nn.functional as F
from figures import COLOURS, panels, save
from options import read_options
from torch import nn
from torch.optim import AdamW
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from normscope import datasets, inference
from normscope.benchmark.metrics import auroc
from normscope.images.size import Auto
from normscope.intake import gather
from normscope.methods.surprisal import ROTATIONS, Settings, Surprisal, classified, fit_reference, surprisals
from normscope.networks.resnet import layout
from normscope.objective.critics import contrast, cosine
from normscope.objective.trade_off import TradeOff
from normscope.settings import build, to_json
from normscope.tables.names import title
from normscope.training import loop
from normscope.training.device import full_precision
from normscope.training.muon import Muon
from normscope.training.observer import Observer
from normscope.training.randomness import seeded
from normscope.training.steps import spread, update
from normscope.views.augment import random_view
from normscope.views.shifts import rotations

TEMPERATURE, CODE = 0.5, 128  # of the contrast between two views


class AdamWAlone(Surprisal):
    def optimizers(self, phase):
        return {"all": AdamW(self.parameters(), self.settings.learning_rate, weight_decay=self.settings.weight_decay)}


class WholeImageAlone(Surprisal):
    """The head does not classify locations."""

    def critics(self, z, local, label):
        return [classified(self.head(z), label)]


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
        self.trade_off = TradeOff(settings.information, settings.beta, settings.beta_ramp, critics=4)

    def step(self, batch, optimizers, progress):
        x = torch.cat(rotations(random_view(batch.normal, self.settings)))
        label = torch.arange(ROTATIONS).repeat_interleave(len(batch.normal))
        right, down = moves = torch.randint(3, (2, len(x)))
        features = self.encoder(moved(x, moves - 1).contiguous(memory_format=torch.channels_last))
        with full_precision(x.device):
            z, local = features.code.float(), features.local.float()
            critics = self.critics(z, local, label)
            critics += [classified(self.right(z), right), classified(self.down(z), down)]
            loss, record = self.trade_off(critics, self.settings.entropy(z), progress)
            loss = loss - self.settings.gamma * self.settings.separation(z[label == 0], z[label != 0])
        update(optimizers.values(), loss)
        return {**record, "loss": loss, "spread": spread(z)}


def moved(images, moves):
    """By −1, 0 or 1 quarters of the side, right and down; from beyond the edge comes the mirror image."""
    n, _, side, _ = images.shape
    by = side // 4
    padded = F.pad(images, (by, by, by, by), mode="reflect")
    columns, rows = (torch.arange(side) + by - by * steps[:, None] for steps in moves)
    return padded[torch.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Contrast(Surprisal):
    """Two views of each image: I also has what the code of one tells of the other, as in the paper."""

    def __init__(self, settings, shape):
        super().__init__(settings, shape)
        d = self.encoder.dimension
        self.projector = nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, CODE))
        self.trade_off = TradeOff(settings.information, settings.beta, settings.beta_ramp, critics=3)

    def step(self, batch, optimizers, progress):
        views = [rotations(random_view(batch.normal, self.settings)) for _ in range(2)]
        x = torch.cat([rotated for view in views for rotated in view])
        label = torch.arange(ROTATIONS).repeat_interleave(len(batch.normal)).repeat(2)
        features = self.encoder(x.contiguous(memory_format=torch.channels_last))
        with full_precision(x.device):
            z, local = features.code.float(), features.local.float()
            critics = self.critics(z, local, label)
            z = self.projector(z)
            critics.append(self.contrast(z, label))
            loss, record = self.trade_off(critics, self.settings.entropy(z), progress)
            loss = loss - self.settings.gamma * self.settings.separation(z[label == 0], z[label != 0])
        update(optimizers.values(), loss)
        return {**record, "loss": loss, "spread": spread(z)}

    def contrast(self, z, label):
        """The positive of a code is that of the other view in the same rotation."""
        return contrast(cosine(z, z, TEMPERATURE))


class Unilateral(Contrast):
    """All unrotated images are positives of each other, and a rotated image is a class of its own (UniCon-HA)."""

    def contrast(self, z, label):
        scores, n = cosine(z, z, TEMPERATURE), len(z)
        same = torch.zeros(n, n, dtype=torch.bool)
        same[torch.arange(n), torch.arange(n).roll(n // 2)] = True
        same |= (label[:, None] == 0) & (label[None] == 0)
        same.fill_diagonal_(False)
        negative = ~same
        negative.fill_diagonal_(False)
        anchors, positives = same.nonzero(as_tuple=True)
        # A row for each positive, and the normal images together weigh as much as they would with one positive each.
        keep = torch.rand(len(anchors)) < 1 / same.sum(1)[anchors]
        anchors, positives = anchors[keep], positives[keep]
        return scores[anchors, positives], scores.masked_fill(~negative, -50.0)[anchors]  # e⁻⁵⁰ of a negative


class ContrastAlone(Contrast):
    """Two views, no rotations: neither head nor third term, and a reference for upright images alone."""

    def step(self, batch, optimizers, progress):
        x = torch.cat([random_view(batch.normal, self.settings) for _ in range(2)])
        features = self.encoder(x.contiguous(memory_format=torch.channels_last))
        with full_precision(x.device):
            z = self.projector(features.code.float())
            loss, record = self.trade_off([contrast(cosine(z, z, TEMPERATURE))], self.settings.entropy(z), progress)
        update([optimizers["convolutions"], optimizers["others"]], loss + 0 * self.head.weight.sum())
        return {**record, "spread": spread(z)}

    def features(self, images):
        return layout(self.encoder.stages(images))[:, None]

    def finish(self, batches):
        return fit_reference(torch.cat([self.features(images) for images in batches]), "gaussian")

    def score(self, images, reference):
        return surprisals(self.features(images), reference)[:, 0]


class Averaged(Surprisal):
    """Scores with a moving average of the weights."""

    def __init__(self, settings, shape):
        super().__init__(settings, shape)
        networks = nn.ModuleDict({"encoder": self.encoder, "head": self.head})
        self.average = AveragedModel(networks, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=False)

    def optimizers(self, phase):
        mean = set(self.average.parameters())
        return {
            "convolutions": Muon([w for w in self.parameters() if w not in mean and w.ndim == 4], 2e-2),
            "others": AdamW([w for w in self.parameters() if w not in mean and w.ndim < 4], 3e-3, weight_decay=5e-4),
        }

    def step(self, batch, optimizers, progress):
        record = super().step(batch, optimizers, progress)
        self.average.update_parameters(nn.ModuleDict({"encoder": self.encoder, "head": self.head}))
        return record

    def represent(self, images):
        kept = self.encoder, self.head
        self.encoder, self.head = self.average.module["encoder"], self.average.module["head"]
        try:
            return super().represent(images)
        finally:
            self.encoder, self.head = kept


class NormTimesCosine(Surprisal):
    """Scores as CSI does: −norm × largest cosine to a training image's code, mean over rotations."""

    def codes(self, images):
        return torch.stack([self.encoder(rotated).code for rotated in rotations(images)], 1)

    def finish(self, batches):
        return {"codes": torch.cat([self.codes(images) for images in batches])}

    def score(self, images, reference):
        codes, known = self.codes(images), F.normalize(reference["codes"], dim=2)
        nearest = torch.einsum("ntd,mtd->nmt", F.normalize(codes, dim=2), known).amax(1)
        return -(codes.norm(dim=2) * nearest).mean(1)


CHANGES: dict[str, tuple[type[Surprisal], dict[str, object], int]] = {  # class, settings, networks that share the time
    "nothing": (Surprisal, {}, 1),
    "AdamW for convolutions too": (AdamWAlone, {}, 1),
    "head asked of the whole image alone": (WholeImageAlone, {}, 1),
    "two views and their contrast": (Contrast, {}, 1),
    "two views, unilateral contrast": (Unilateral, {}, 1),
    "contrast alone, no rotations": (ContrastAlone, {}, 1),
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
    small = {"width": 16, "batch_size": 16} if options.quick else {}
    settings = build(Settings, {"reference": "gaussian", **given, **small})
    task = datasets.load(dataset, options.data_root).task(normal)
    train, _ = gather(task.train_images, Auto())
    test, _ = gather(task.test_images, train.size)
    scores, steps, began = 0.0, 0, time.perf_counter()
    for network in range(networks):
        with seeded(seed, network):
            method = variant(settings, (3, *train.size))
        budget = options.budget / networks if options.budget else None
        plan = loop.Plan(seed + network, options.epochs, budget)
        steps += loop.train(method, train, plan, Observer()).steps
        reference = loop.finish(method, inference.encoded(method, train, plan.device), plan.seed)
        scores = scores + inference.scores(method, reference, inference.encoded(method, test, plan.device))
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
