"""What `surprisal` compares features with: networks that are trained once, each with either reference.

Development classes. `neighbours` has the features of the image and its mirror image, in the mean; `gaussian` has one
Gaussian for each rotation. `auto` is the former for images in colour and the latter for grey ones.
"""

import dataclasses
import itertools
import time

import torch
from figures import COLOURS, panels, save
from options import read_options

from normscope import datasets, inference
from normscope.benchmark.metrics import auroc
from normscope.images.size import Auto
from normscope.intake import gather
from normscope.methods.surprisal import Settings, Surprisal
from normscope.settings import build
from normscope.tables.names import title
from normscope.training import loop
from normscope.training.observer import Observer
from normscope.training.randomness import seeded

REFERENCES = ("gaussian", "neighbours")
DEVELOPMENT = ("mnist:2,7", "fashion-mnist:1,4", "cifar10:5,8")

options = read_options(__doc__, "results/references.jsonl", "docs/references.png", DEVELOPMENT)
torch.set_num_threads(options.threads)


def measure(dataset: str, normal: int, seed: int) -> dict:
    small = {"width": 16, "batch_size": 16} if options.quick else {}
    settings = build(Settings, small)
    task = datasets.load(dataset, options.data_root).task(normal)
    train, _ = gather(task.train_images, Auto())
    test, _ = gather(task.test_images, train.size)
    with seeded(seed):
        method = Surprisal(settings, (3, *train.size))
    plan = loop.Plan(seed, options.epochs, options.budget)
    steps = loop.train(method, train, plan, Observer()).steps
    found, speed = {}, {}
    for name in REFERENCES:
        method.settings = dataclasses.replace(settings, reference=name)
        reference = loop.finish(method, inference.encoded(method, train, plan.device), plan.seed)
        began = time.perf_counter()
        scores = inference.scores(method, reference, inference.encoded(method, test, plan.device))
        speed[name] = round(len(scores) / (time.perf_counter() - began))
        found[name] = round(auroc(scores, task.test_labels.look()), 6)
    return {"method": "surprisal", "steps": steps, "auroc": found, "images_per_second": speed}


keys = [(*task, seed) for task, seed in itertools.product(options.tasks, range(options.seeds))]
lines = options.lines(("dataset", "normal", "seed"), keys, measure)
figure, (axis,) = panels([" and ".join(REFERENCES) + " (orange)"], height=2.6)
for place, task in enumerate(options.tasks):
    for seed in range(options.seeds):
        if (*task, seed) in lines:
            values = [100 * lines[*task, seed]["auroc"][name] for name in REFERENCES]
            axis.plot(values, [place, place], color="#b9c2cc", zorder=1)
            axis.scatter(values, [place, place], color=COLOURS[: len(REFERENCES)], zorder=2)
axis.set_yticks(range(len(options.tasks)), [title(*task) for task in options.tasks])
axis.set(xlabel="AUROC in %")
axis.invert_yaxis()
save(figure, options.picture)
