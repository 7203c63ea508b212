"""Do heat maps find a patch that was pasted into a normal image?

A square of a third of the image's side, cut from an image of another class, is put at a random place of normal test
images. Reported are pixel AUROC, PRO, and how often the hottest pixel lies in the patch (chance: about a ninth).
"""

import numpy as np
import torch
from figures import COLOURS, panels, save
from options import read_options

from normscope import Detector, datasets
from normscope.benchmark.pixels import pixel_auroc, pro
from normscope.settings import to_json
from normscope.tables.names import title

options = read_options(__doc__, "results/patches.jsonl", "docs/patches.png")
torch.set_num_threads(options.threads)
most = 20 if options.quick else 300
literal = {"preset": "paper", "encoder": "tiny", "beta": 1.0, "clip_scale": "root"}
methods = {"surprisal": {}, "extension": literal, "pretrained": {}}
if options.quick:
    methods["pretrained"] = {"side": 32, "channels": 10}


def pasted(task) -> tuple[np.ndarray, np.ndarray]:
    """Images with a patch, and masks of where it is; only whether an image is normal is asked of the labels."""
    rng, odd = np.random.default_rng(0), task.test_labels.look()
    normal, others = task.test_images[~odd][:most].copy(), task.test_images[odd]
    height, width = normal.shape[1:3]
    side = height // 3
    masks = np.zeros(normal.shape[:3], bool)
    for image, mask in zip(normal, masks, strict=True):
        y, x = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
        place = (slice(y, y + side), slice(x, x + side))
        image[place], mask[place] = others[rng.integers(len(others))][place], True
    return normal, masks


def measure(dataset: str, normal: int, method: str) -> dict:
    task = datasets.load(dataset, options.data_root).task(normal)
    detector = Detector(
        method,
        settings=methods[method],
        budget=options.budget,
        epochs=options.epochs,
        false_alarm_rate=None,
        device="cpu",
    ).fit(task.train_images, allow_collapse=True)
    images, masks = pasted(task)
    maps = detector.explain(images)
    hottest = maps.reshape(len(maps), -1).argmax(1)
    return {
        "settings": to_json(detector.options.settings),
        "seed": 0,
        "images": len(images),
        "metrics": {
            "pixel_auroc": round(pixel_auroc(maps, masks), 6),
            "pro": round(pro(maps, masks), 6),
            "hits": round(float(masks.reshape(len(masks), -1)[np.arange(len(masks)), hottest].mean()), 4),
        },
        "steps": detector.card["training"]["steps"],
        "health": detector.card["training"]["health"],
    }


keys = [(*task, method) for task in options.tasks for method in methods]
found = options.lines(("dataset", "normal", "method"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    for place, (metric, name) in enumerate({"pixel_auroc": "pixel AUROC", "pro": "PRO", "hits": "hits"}.items()):
        values = [100 * found[*task, method]["metrics"][metric] for method in methods]
        places = [number + 0.25 * (place - 1) for number in range(len(methods))]
        axis.bar(places, values, 0.22, color=COLOURS[place], label=name)
    axis.set_xticks(range(len(methods)), list(methods))
    axis.set(ylim=(0, 100))
axes[0].set_ylabel("%")
axes[0].legend(fontsize=8)
save(figure, options.picture)
