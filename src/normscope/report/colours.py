"""The colours of heat: lightness grows with it, so that colour-blind readers and grey printers tell more from less."""

import numpy as np
import numpy.typing as npt

__all__ = ["HOTTEST", "OUTLINE", "SHADOW", "on_scale", "opacity", "palette"]

Colours = npt.NDArray[np.uint8]

HOTTEST = 10.0  # heat at which the colours end, in every image of every model; few normal images have a place above 1
UNSEEN, OPAQUE = 0.25, 0.65  # heat up to which nothing is drawn, and how much of the image the hottest colours hide
PATH = np.array(  # lightness, chroma and hue (degrees) in OKLCH, at equal distances on the scale
    [(0.38, 0.14, 295), (0.50, 0.20, 335), (0.63, 0.22, 375), (0.78, 0.17, 425), (0.93, 0.14, 460)]
)
OUTLINE, SHADOW = -2, -1  # where the two colours of the outline of a hot region are in a palette
OKLAB_TO_LMS = np.array(
    [(1, 0.3963377774, 0.2158037573), (1, -0.1055613458, -0.0638541728), (1, -0.0894841775, -1.291485548)]
)
LMS_TO_RGB = np.array(
    [
        (4.0767416621, -3.3077115913, 0.2309699292),
        (-1.2684380046, 2.6097574011, -0.3413193965),
        (-0.0041960863, -0.7034186147, 1.707614701),
    ]
)


def on_scale(heat: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Where on the scale of colours, 0 to 1: even up to heat 1, which is in the middle, then by its logarithm."""
    heat = np.clip(np.asarray(heat, np.float64), 0, HOTTEST)
    return np.where(heat < 1, heat, 1 + np.log(np.maximum(heat, 1)) / np.log(HOTTEST)) / 2


def palette(n: int) -> Colours:
    """[n + 2, 4], RGBA: n colours at equal distances on the scale, then those of the outline."""
    place = (np.arange(n) + 0.5) / n
    lightness, chroma, hue = (np.interp(place, np.linspace(0, 1, len(PATH)), column) for column in PATH.T)
    rgb = from_oklch(lightness, chroma, np.deg2rad(hue))
    rgba = np.concatenate([rgb, opacity(place)[:, None]], 1)
    return np.rint(np.concatenate([rgba, [(1, 1, 1, 1), (0, 0, 0, 0.8)]]) * 255).astype(np.uint8)


def opacity(place: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Nothing is drawn where an image is as usual, and all of the colour only where heat is 1 or more."""
    return OPAQUE * np.clip((2 * place - UNSEEN) / (1 - UNSEEN), 0, 1)


def from_oklch(lightness: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> npt.NDArray[np.float64]:
    """Ottosson 2020, https://bottosson.github.io/posts/oklab → sRGB in [0, 1], [n, 3]."""
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], 1)
    linear = np.clip((lab @ OKLAB_TO_LMS.T) ** 3 @ LMS_TO_RGB.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
