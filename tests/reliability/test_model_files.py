"""Model files that were damaged, or written by somebody who means harm; and files that must be equal."""

import hashlib
import math
import os
import random
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch
from hostile_values import ODD, leaves, with_value, without_value
from small_methods import NAMES, detector, pictures

from normscope import artifact, sealed
from normscope.errors import ModelFileError, NormscopeError
from normscope.model import load

SECONDS, MEGABYTES = 2, 500
IMAGES, OTHERS = pictures(24), pictures(3, seed=1)


@cache
def fitted(name):
    return detector(name).fit(IMAGES, allow_collapse=True)


@pytest.fixture
def path(tmp_path):
    fitted("pca").save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def refused(path):
    try:
        load(path)
    except ModelFileError as error:
        return "\n" not in str(error) and str(path) in str(error)
    return False


def refused_within(within, path):
    try:
        with within(SECONDS, MEGABYTES):
            return refused(path)
    except Exception:  # whatever it is, it is counted
        return False


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_flipped_bit_is_refused(path, within, tally, count):
    size, rng, lost = path.stat().st_size, random.Random(count), 0
    header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    with path.open("r+b", buffering=0) as file:
        for number in range(count):
            place = rng.randrange(header if number % 2 else size)  # half of them in the header
            (byte,) = os.pread(file.fileno(), 1, place)
            os.pwrite(file.fileno(), bytes([byte ^ 1 << rng.randrange(8)]), place)
            lost += not refused_within(within, path)
            os.pwrite(file.fileno(), bytes([byte]), place)
    load(path)
    tally("model file: a bit flipped", count, lost)


@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.soak)])
def test_a_file_that_was_cut_short_is_refused(path, within, tally, count):
    lengths, lost = random.Random(count).sample(range(path.stat().st_size), count), 0
    for length in sorted(lengths, reverse=True):
        os.truncate(path, length)
        lost += not refused_within(within, path)
    tally("model file: cut short", count, lost)


def hostile_card(card, rng):
    """One value replaced, removed or added; rather in what decides how large a network is."""
    places = [at for at in leaves(card) if at]
    sized = [at for at in places if at[0] in ("settings", "preprocessing", "method", "calibration", "training")]
    at, action = rng.choice(sized if rng.random() < 0.8 else places), rng.random()
    if action < 0.1:
        return without_value(card, at)
    if action < 0.2:
        return with_value(card, (*at[:-1], "unknown") if isinstance(at[-1], str) else at, rng.choice(ODD))
    return with_value(card, at, rng.choice(ODD))


EXTREME = [3e38, -3e38, math.nan, math.inf]


def hostile_tensors(tensors, rng):
    """One tensor renamed, reshaped, of another type, missing, larger, or full of extreme values; or one more."""
    name = rng.choice(sorted(tensors))
    tensor, others = tensors[name], {key: value for key, value in tensors.items() if key != name}
    kind = rng.randrange(9)
    if kind == 0:
        return others
    if kind == 1:
        return {**others, rng.choice(["", "weights.", "../x", "x" * 5000, name.upper(), "__proto__"]): tensor}
    if kind == 2:
        return {**others, name: tensor.reshape(-1)}
    if kind == 3:
        return {**others, name: tensor.to(rng.choice([torch.float16, torch.int64, torch.uint8, torch.complex64]))}
    if kind == 4:
        return {**others, name: tensor[:0] if tensor.ndim else tensor.reshape(1, 1)}
    if kind == 5:
        return {**others, name: torch.cat([tensor.reshape(1, -1)] * 2)}
    if kind == 6:
        return {**others, name: torch.full_like(tensor, rng.choice([0, 1, 100]))}
    if kind == 7:
        return {**others, name: torch.full_like(tensor, rng.choice(EXTREME)) if tensor.is_floating_point() else tensor}
    return {**tensors, "reference.more": torch.zeros(0, 2**20)}


def resealed(path, tensors, card):
    text = artifact.to_text(card)
    path.write_bytes(b"".join(sealed.seal(tensors, {"normscope": artifact.FORMAT, "card": text})[0]))


def outcome(path):
    """`refused`, or `harmless`: scores that are finite, or an error of ours. Anything else is a loss."""
    try:
        model = load(path)
    except ModelFileError as error:
        return "refused" if "\n" not in str(error) else f"refused in several lines: {error}"
    if not model.method.scores_quickly:
        return "harmless"
    try:
        rows = list(model.rows([path.with_name("image.png")]))
    except NormscopeError as error:
        return "harmless" if "\n" not in str(error) else f"an error in several lines: {error}"
    return "harmless" if all(row["error"] or np.isfinite(row["score"]) for row in rows) else f"rows {rows}"


def outcome_within(within, path):
    try:
        with within(SECONDS, MEGABYTES):
            return outcome(path)
    except Exception as error:  # whatever it is, it is counted
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("count", "names"), [(24, ["pca", "surprisal"]), pytest.param(800, NAMES, marks=pytest.mark.soak)]
)
def test_a_hostile_card_with_the_right_checksum_is_refused_or_harmless(tmp_path, within, tally, count, names):
    from PIL import Image

    path, rng, found = tmp_path / "model.safetensors", random.Random(count), []
    Image.fromarray(OTHERS[0]).save(tmp_path / "image.png")
    for number in range(count):
        fitted(names[number % len(names)]).save(path)
        tensors, card, _ = artifact.load(path)
        if number // len(names) % 3 == 2:
            tensors = hostile_tensors(tensors, rng)
        else:
            card = hostile_card(card, rng)
        resealed(path, tensors, card)
        found.append(outcome_within(within, path))
    assert found.count("refused") > count / 3
    lost = [one for one in found if one not in ("refused", "harmless")]
    print(*lost, sep="\n")
    tally("model file: hostile card or tensors, resealed", count, len(lost), refused=found.count("refused"))


SWELLING = [
    ("base", {"score": "mc", "score_pairs": 10**6}),
    ("base", {"score": "mc", "score_pairs": 2**40}),
    ("pretrained", {"side": 20_000}),
    ("pretrained", {"side": 2**40}),
]


@pytest.mark.parametrize(("name", "changed"), SWELLING)
def test_a_card_that_would_swell_the_process_is_refused(tmp_path, within, name, changed):
    fitted(name).save(tmp_path / "model")
    tensors, card, _ = artifact.load(tmp_path / "model")
    resealed(tmp_path / "model", tensors, {**card, "settings": {**card["settings"], **changed}})
    assert refused_within(within, tmp_path / "model")


SCORES = """
import sys
import numpy as np
from normscope import load
print(load(sys.argv[1]).score(np.load(sys.argv[2])).tobytes().hex())
"""
FIT = """
import sys
sys.path.insert(0, sys.argv[1])
from hostile_values import ODD, leaves, with_value, without_value
from small_methods import NAMES, detector, pictures
for name in NAMES:
    detector(name).fit(pictures(24), allow_collapse=True).save(f"{sys.argv[2]}/{name}")
"""


def fresh(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    print(done.stderr, end="")
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.mark.parametrize("names", [["surprisal"], pytest.param(NAMES, marks=pytest.mark.soak)])
def test_a_fresh_process_gives_the_same_bits(tmp_path, tally, names):
    np.save(tmp_path / "images.npy", OTHERS)
    lost = 0
    for name in names:
        fitted(name).save(tmp_path / "model")
        lost += fresh(SCORES, tmp_path / "model", tmp_path / "images.npy") != fitted(name).score(OTHERS).tobytes().hex()
    tally("model file: scores of a fresh process, bit by bit", len(names), lost)


@pytest.mark.soak
def test_two_processes_with_one_seed_write_the_same_bytes(tmp_path, tally):
    from pathlib import Path

    for process in ("one", "other"):
        (tmp_path / process).mkdir()
        fresh(FIT, Path(__file__).parent, tmp_path / process)
    lost = [name for name in NAMES if digest(tmp_path / "one" / name) != digest(tmp_path / "other" / name)]
    print(*lost)
    tally("model file: two fits with one seed, byte by byte", len(NAMES), len(lost))


def digest(path):
    """Equal to nothing if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else math.nan
