"""Detectors on pixels: `knn` and `ocsvm` beside PyOD's KNN and scikit-learn's OneClassSVM, in turns in one run.

`python -m benchmarks.rivals --images FOLDER --python VENV/bin/python`, the Python of a venv that has pyod. All get the
same pixels in memory, fit, and score as many images again. Ours calibrate, too: a fit has references for several folds.
Lines go to results/speed.jsonl.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.line import append, timed
from normscope import Detector
from normscope.images import store
from normscope.images.folder import scan
from normscope.images.outcome import Kind

SIDE = 32
OURS = ("knn", "ocsvm")
RIVALS = """
import json, sys, time
import numpy as np
from pyod.models.knn import KNN
from sklearn.svm import OneClassSVM
x = np.load(sys.argv[1]) / 255.0
x = x.reshape(len(x), -1)
seconds = {}
for name, make in {"pyod KNN": KNN, "sklearn OneClassSVM": OneClassSVM}.items():
    began = time.process_time()
    fitted = make().fit(x)
    between = time.process_time()
    fitted.decision_function(x)
    seconds[name] = {"fit": between - began, "score": time.process_time() - between}
print(json.dumps(seconds))
"""


def ours(name: str, images: np.ndarray) -> dict[str, float]:
    detector = Detector(name, size=SIDE)
    fit = timed(lambda: detector.fit(images))["processor"]
    return {"fit": fit, "score": timed(lambda: detector.score(images))["processor"]}


def theirs(python: str, images: np.ndarray) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "images.npy", images)
        command = [python, "-c", RIVALS, str(Path(folder) / "images.npy")]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/speed.jsonl"))
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    paths = [one.path for one in scan(given.images) if one.kind is Kind.IMAGE]
    images = store.from_paths(paths, (SIDE, SIDE))[0][:].transpose(0, 2, 3, 1)
    ours("knn", images)  # warms up
    for number in range(given.rounds):
        seconds = {name: ours(name, images) for name in OURS} | theirs(given.python, images)
        append(given.out, {"what": "rivals", "images": len(images), "side": SIDE, "round": number, "seconds": seconds})


if __name__ == "__main__":
    main()
