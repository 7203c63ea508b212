"""A heat map as a layer of colours to be laid over its image, the hot region outlined."""

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion

from normscope.report.colours import OUTLINE, SHADOW, on_scale
from normscope.report.picture import Heat, Pixels, stretched

__all__ = ["HOT", "laid_over", "layer"]

HOT = 1.0  # heat above which a place is outlined


def layer(heat: Heat, size: tuple[int, int], colours: int, width: int = 1) -> Pixels:
    """[h', w'] → indices [*size] into `palette(colours)`; the outline is twice `width` pixels wide."""
    large = stretched(heat, size)
    indices = np.minimum(on_scale(large) * colours, colours - 1).astype(np.uint8)
    hot = large > HOT
    indices[hot & ~binary_erosion(hot, iterations=width, border_value=1)] = colours + 2 + OUTLINE
    indices[binary_dilation(hot, iterations=width) & ~hot] = colours + 2 + SHADOW
    return indices


def laid_over(pixels: Pixels, indices: Pixels, colours: Pixels) -> Pixels:
    """The image [h, w, 3] in grey under the layer: colours [n, 4] by their indices [h, w]."""
    grey = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None]
    over = colours[indices].astype(np.float64)
    opacity = over[..., 3:] / 255
    return np.rint(grey * (1 - opacity) + over[..., :3] * opacity).astype(np.uint8)
