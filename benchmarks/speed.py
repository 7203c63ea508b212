"""How fast images are scored and methods train, beside a plain PyTorch loop, in turns in one run.

`python -m benchmarks.speed scoring --images FOLDER --model FILE --graphs model.onnx` scores files of a folder with a
model of `pretrained` and with what `normscope export` made of it, and puts the same files through its encoder in the
way most scripts do: a DataLoader with Pillow transforms, then the network, by PyTorch's own convolutions and once more
by those that ours has. `cold` scores files that are not in the
system's memory and then again, `fit` compares a fit of them with the encoder alone. `training` makes steps of
`surprisal`, and steps of the same network with views made by Pillow. `reduced` enlarges photographs and says what
decoding them at a reduced scale changes and saves. Lines go to results/speed.jsonl.
"""

import argparse
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

from benchmarks.line import append, processor_seconds, timed
from normscope import Detector
from normscope.export.exported import open_model
from normscope.export.exporting import FORMATS
from normscope.images import reader, store
from normscope.images.folder import scan
from normscope.images.outcome import Kind
from normscope.methods import find, settings_of
from normscope.model import Model, load
from normscope.networks.efficientnet import Convolution
from normscope.training.allocator import keep_freed_memory
from normscope.training.batches import to_float
from normscope.training.method import Batch
from normscope.views.augment import random_view
from normscope.views.shifts import rotations

ENGINES = {one.suffix: name for name, one in FORMATS.items()}
SCALES = (4, 8)  # sides of an enlarged photograph, in those of the model's size


class Files(Dataset):
    """Files as most scripts read them."""

    def __init__(self, paths: list[Path], size: tuple[int, int]) -> None:
        self.paths, self.size = paths, size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        with Image.open(self.paths[index]) as image:
            resized = image.convert("RGB").resize(self.size[::-1], Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1).float() / 127.5 - 1


def plainly_encoded(paths: list[Path], network: nn.Module, size: tuple[int, int]) -> None:
    """The encoder alone, and nothing of what makes a score of its maps."""
    with torch.inference_mode():
        for batch in DataLoader(Files(paths, size), batch_size=32, num_workers=1):
            network(batch)


def scoring(out: Path, folder: Path, file: Path, graphs: list[Path], count: int, rounds: int) -> None:
    keep_freed_memory()
    model = load(file)
    plain, fused = as_most_run_it(load(file)), load(file)
    loops = {"plain": plain, "plain_fused": fused}
    for one in loops.values():
        one.method.encoder.network.to(memory_format=torch.contiguous_format)
    paths = [one.path for one in scan(folder) if one.kind is Kind.IMAGE][:count]
    models = {"eager": model, **{ENGINES[graph.suffix]: open_model(graph) for graph in graphs}}
    ways: dict[str, Callable[[], object]] = {
        name: lambda one=one: plainly_encoded(paths, one.method.encoder.network, model.method.encoder.size)
        for name, one in loops.items()
    }
    ways |= {engine: lambda one=one: [*one.rows(paths)] for engine, one in models.items()}
    pixels = store.from_paths(paths[:8], model.size)[0]
    floats = to_float(pixels[:], torch.device("cpu")).contiguous()
    networks: dict[str, Callable[[], object]] = {"plain": lambda: without_gradients(plain, floats)}
    networks |= {engine: lambda one=one: one.scores(pixels) for engine, one in models.items()}
    for number in range(rounds):
        taken = {name: timed(way) for name, way in ways.items()}
        alone = {name: timed(network) for name, network in networks.items()}
        line = {"what": "scoring", "method": "pretrained", "images": len(paths), "size": list(model.size)}
        append(out, {**line, "round": number, "seconds": taken, "decoded": {"images": len(pixels), "seconds": alone}})


def without_gradients(model: Model, images: Tensor) -> None:
    with torch.inference_mode():
        model.method.encoder.network(images)


def as_most_run_it(model: Model) -> Model:
    """A convolution, and then ReLU6: nothing is fused."""
    for one in model.method.modules():
        if isinstance(one, Convolution):
            one.fuses = lambda x: False
    return model


def cold(out: Path, folder: Path, file: Path, count: int, rounds: int) -> None:
    """Files that were just forgotten by the system, and the same again: read and resized, and scored."""
    keep_freed_memory()
    model = load(file)
    paths = [one.path for one in scan(folder) if one.kind is Kind.IMAGE][:count]
    ways: dict[str, Callable[[], object]] = {
        "decoded": lambda: sum(len(some) for some, _ in store.in_batches(paths, model.size, 8)),
        "scored": lambda: [*model.rows(paths)],
    }
    for number in range(rounds):
        seconds = {}
        for name, way in ways.items():
            for path in paths:
                forget(path)
            seconds[name] = {"cold": timed(way), "warm": timed(way)}
        append(out, {"what": "cold", "images": len(paths), "round": number, "seconds": seconds})


def forget(path: Path) -> None:
    """Asks the system to drop the file from its page cache; not all file systems do."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fit(out: Path, folder: Path, rounds: int) -> None:
    """A fit without options to a folder of photographs, beside its encoder on the same images in memory, each once."""
    keep_freed_memory()
    paths = [one.path for one in scan(folder) if one.kind is Kind.IMAGE]
    for number in range(rounds):
        detector = Detector()
        seconds = {"fit": timed(lambda one=detector: one.fit(folder))}
        model = detector.model
        pixels = store.from_paths(paths, model.size)[0]
        seconds["encoder"] = timed(lambda one=model, some=pixels: encoded(one, some))
        card = model.card
        line = {"what": "fit", "method": card["method"], "images": len(paths), "size": list(model.size)}
        append(out, {**line, "encoder": card["settings"]["encoder"], "round": number, "seconds": seconds})


def encoded(model: Model, pixels: store.Store) -> None:
    with torch.inference_mode():
        for start in range(0, len(pixels), 8):
            model.method.encoder(to_float(pixels[start : start + 8], torch.device("cpu")))


class Views(Dataset):
    """Views as most scripts make them: each image by itself, by Pillow."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.images = [Image.fromarray(one.transpose(1, 2, 0)) for one in pixels]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        rng, image = np.random.default_rng(index), self.images[index]
        side = int(image.width * rng.uniform(0.55, 1))
        left, upper = rng.integers(0, image.width - side + 1, 2)
        view = image.resize(image.size, Image.Resampling.BILINEAR, (left, upper, left + side, upper + side))
        if rng.integers(2):
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            view = enhance(view).enhance(rng.uniform(0.5, 1.5))
        return torch.from_numpy(np.array(view)).permute(2, 0, 1).float() / 127.5 - 1


def training(out: Path, side: int, steps: int, rounds: int) -> None:
    keep_freed_memory()
    for number in range(rounds):
        append(out, {**training_round(side, steps), "round": number})


def training_round(side: int, steps: int) -> dict:
    torch.manual_seed(0)
    method = find("surprisal")(settings_of("surprisal")(), (3, side, side)).to(memory_format=torch.channels_last)
    batch, optimizers = method.settings.batch_size, method.optimizers("train")
    pixels = np.random.default_rng(0).integers(0, 256, (batch * steps, 3, side, side), dtype=np.uint8)
    parts = [pixels[start : start + batch] for start in range(0, len(pixels), batch)]

    def ours() -> None:
        for some in parts:
            images = to_float(some, torch.device("cpu"))
            method.step(Batch(images, images[:0]), optimizers, 0.5)

    def views() -> None:
        for some in parts:
            rotations(random_view(to_float(some, torch.device("cpu")), method.settings))

    shapes = layer_shapes(method.encoder, 4 * batch, side)
    layers = matrices(shapes)
    ours()  # warms up
    products(layers, 1)
    taken = {
        "ours": timed(ours),
        "plain": timed(lambda: plain_steps(pixels, batch, side)),
        "views": timed(views),
        "products": timed(lambda: products(layers, steps)),
    }
    convolutions = share_of_convolutions(ours)
    flops = 3 * sum(2 * m * k * n for m, k, n in shapes)  # forward, and gradients of weights and of what came in
    line = {"what": "training", "method": "surprisal", "side": side, "steps": steps, "images": batch}
    return {**line, "flops": flops, "seconds": taken, "convolutions": convolutions}


def share_of_convolutions(run: Callable[[], None]) -> float:
    """Of the time of all operations, forward and backward."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        run()
    every = {one.key: one.self_cpu_time_total for one in profiled.key_averages()}
    return sum(taken for name, taken in every.items() if "convolution" in name) / sum(every.values())


def plain_steps(pixels: np.ndarray, batch: int, side: int) -> None:
    """The same network, rotations and batch; weights by AdamW."""
    method = find("surprisal")(settings_of("surprisal")(), (3, side, side))
    optimizer = torch.optim.AdamW(method.parameters(), 1e-3)
    for images in DataLoader(Views(pixels), batch_size=batch, num_workers=1):
        x = torch.cat([images.rot90(turn, (2, 3)) for turn in range(4)])
        label = torch.arange(4).repeat_interleave(len(images))
        loss = F.cross_entropy(method.head(method.encoder(x).code), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def layer_shapes(network: nn.Module, n: int, side: int) -> list[tuple[int, int, int]]:
    """Of every convolution, its product by im2col: locations, values in a window, channels."""
    found = list[tuple[int, int, int]]()

    def note(layer: nn.Conv2d, _: object, made: Tensor) -> None:
        found.append((made.shape[0] * made.shape[2] * made.shape[3], layer.weight[0].numel(), layer.out_channels))

    hooks = [one.register_forward_hook(note) for one in network.modules() if isinstance(one, nn.Conv2d)]
    with torch.no_grad():
        network(torch.zeros(n, 3, side, side))
    for hook in hooks:
        hook.remove()
    return found


def matrices(shapes: list[tuple[int, int, int]]) -> list[tuple[Tensor, Tensor, Tensor]]:
    return [(torch.ones(m, k), torch.ones(k, n), torch.ones(m, n)) for m, k, n in shapes]


def products(layers: list[tuple[Tensor, Tensor, Tensor]], times: int) -> None:
    """Forward, and both gradients, as bare matrix products."""
    for _ in range(times):
        for x, w, y in layers:
            torch.mm(x, w, out=y)
            torch.mm(y, w.T, out=x)
            torch.mm(x.T, y, out=w)


def reduced(out: Path, folder: Path, file: Path, count: int) -> None:
    """What a reduced scale changes, in standard deviations of the calibration scores, and the time of decoding."""
    keep_freed_memory()
    model = load(file)
    paths = [one.path for one in scan(folder) if one.kind is Kind.IMAGE][:: max(1, 100 // count)][:count]
    for scale in SCALES:
        for quality in (60, 95):
            large = [enlarged(path, model, scale, quality) for path in paths]
            for enough in (1, 2, 4):
                if 2 * enough <= scale:
                    append(out, {**compared(model, large, enough), "scale": scale, "quality": quality})


def enlarged(path: Path, model: Model, scale: int, quality: int) -> bytes:
    """A JPEG `scale` times the model's size, with noise of its own as a camera adds."""
    with Image.open(path) as image:
        size = (scale * model.size[1], scale * model.size[0])
        pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BICUBIC), np.float32)
    noise = np.random.default_rng(0).normal(0, 6, pixels.shape[:2]).astype(np.float32)[:, :, None]
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=quality)
    return file.getvalue()


def compared(model: Model, large: list[bytes], enough: int) -> dict:
    """Decoded whole, and at the smallest scale at which they are still `enough` times the model's size."""
    assert model.calibration
    ways = {"whole": lambda data: reader.decode(data).pixels, "reduced": lambda data: drafted(data, model, enough)}
    found, seconds = {}, {}
    for name, decode in ways.items():
        began = processor_seconds()
        pixels = [reader.resize(decode(data), model.size) for data in large]
        seconds[name] = processor_seconds() - began
        found[name] = model.scores(store.from_arrays(pixels, model.size))
    change = np.abs(found["reduced"] - found["whole"]) / model.calibration.scores.std()
    figures = {"mean": float(change.mean()), "largest": float(change.max())}
    return {"what": "reduced", "enough": enough, "images": len(large), "change": figures, "processor": seconds}


def drafted(data: bytes, model: Model, enough: int) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        image.draft(None, (enough * model.size[1], enough * model.size[0]))
        return np.array(image.convert("RGB"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["scoring", "cold", "fit", "training", "reduced"])
    parser.add_argument("--out", type=Path, default=Path("results/speed.jsonl"))
    parser.add_argument("--images", type=Path, help="Folder of photographs.")
    parser.add_argument("--model", type=Path, help="Model file of the method pretrained.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--graphs", type=Path, nargs="*", default=[], help="Exports of the model, .onnx or .xml.")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.what == "training":
        training(given.out, given.side, given.steps, given.rounds)
    elif given.what == "cold":
        cold(given.out, given.images, given.model, given.count, given.rounds)
    elif given.what == "fit":
        fit(given.out, given.images, given.rounds)
    elif given.what == "reduced":
        reduced(given.out, given.images, given.model, given.count)
    else:
        scoring(given.out, given.images, given.model, given.graphs, given.count, given.rounds)


if __name__ == "__main__":
    main()
