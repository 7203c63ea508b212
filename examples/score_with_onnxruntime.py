"""Scores images with an exported model, without normscope: onnxruntime, Pillow and numpy are all it takes.

normscope export model.safetensors --to onnx -o model.onnx
python score_with_onnxruntime.py model.onnx image.png …
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def read(path: str, height: int, width: int) -> np.ndarray:
    """uint8 [height, width, 3]: upright, over white where it is transparent, resized whole."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))


def main(model: str, paths: list[str]) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    card = json.loads(session.get_modelmeta().custom_metadata_map["card"])
    images = np.stack([read(path, *card["preprocessing"]["size"]) for path in paths])
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"images": images}), strict=True))
    for path, score, p_value, anomalous in zip(
        paths, found["score"], found["p_value"], found["anomalous"], strict=True
    ):
        print(f"{path}\t{score}\t{p_value}\t{'anomalous' if anomalous else 'normal'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
