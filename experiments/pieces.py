"""A small folder laid out as those of photographs are, for a quick run."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image


def pieces(root: Path) -> Path:
    """Pieces of a photograph, some with a dark bar across."""
    photograph = load_sample_image("china.jpg")
    rng = np.random.default_rng(0)
    for part, n in (("train/good", 24), ("test/good", 8), ("test/bar", 8)):
        (root / part).mkdir(parents=True)
        for number in range(n):
            y, x = rng.integers(0, 300, 2)
            piece = photograph[y : y + 96, x : x + 96].copy()
            if part == "test/bar":
                piece[40:44, 10:80] = 0
            Image.fromarray(piece).save(root / part / f"{number}.png")
    return root
