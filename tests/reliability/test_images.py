"""Image files that mean harm: none stops a run, swells it or changes what is learnt from the others."""

import numpy as np
import pytest
import torch
from hostile_images import BROKEN, HEAVY, KINDS, corpus
from PIL import Image
from small_methods import detector

from normscope import Detector
from normscope.errors import NormscopeError
from normscope.images.folder import scan
from normscope.images.outcome import Kind
from normscope.images.store import from_paths

SECONDS, PER_FILE, MEGABYTES = 12, 0.5, 500  # a file may take ten seconds, and what starting a process takes


def test_there_are_kinds_enough():
    assert len({**KINDS, **HEAVY}) >= 40


def write_good(folder, count, seed=0):
    """Small pictures of different sizes, grey and in colour; their names sort among those of the corpus."""
    folder.mkdir(exist_ok=True)
    rng, paths = np.random.default_rng(seed), []
    for number in range(count):
        height, width = rng.integers(30, 44), rng.integers(30, 60)
        shape = (height, width) if rng.random() < 0.7 else (height, width, 3)
        columns = 120 + 60 * np.sin(np.arange(width) / 3).reshape((1, width) + (1,) * (len(shape) - 2))
        pixels = np.clip(columns + rng.normal(0, 12, shape), 0, 255).astype(np.uint8)
        paths.append(folder / f"{rng.integers(10**6):06}-good-{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


@pytest.mark.parametrize(
    ("count", "kinds"), [(len(KINDS), KINDS), pytest.param(2_000, {**KINDS, **HEAVY}, marks=pytest.mark.soak)]
)
def test_no_hostile_file_stops_or_swells_a_run(tmp_path, within, tally, count, kinds):
    heavy = 3 * sum(kind in HEAVY for kind in kinds)  # of each a few, as they take seconds
    bad = corpus(tmp_path / "all", count - heavy, seed=count, kinds=KINDS)
    bad += corpus(tmp_path / "all", heavy, seed=heavy, kinds=HEAVY)
    good = write_good(tmp_path / "all", count // 10)
    expected = {path: from_paths([path], (28, 28))[0][0] for path in good}
    with within(PER_FILE * count + SECONDS * heavy, MEGABYTES):
        found = list(scan(tmp_path / "all"))
        paths = [one.path for one in found if one.kind is Kind.IMAGE]
        pixels, outcomes = from_paths(paths, (28, 28))
    read = dict(zip((one.path for one in outcomes if one.kind is Kind.IMAGE), pixels[:], strict=True))
    unreadable = [one for one in [*found, *outcomes] if one.kind is Kind.UNREADABLE]
    lost = [path for path in good if path not in read or not (read[path] == expected[path]).all()]
    lost += {*bad, *good} ^ {*read, *(one.path for one in unreadable)}  # each is an image or has a reason
    lost += [one.path for one in unreadable if not (0 < len(one.reason) < 300 and one.reason.isprintable())]
    assert len(unreadable) >= 0.7 * count
    what = "images: hostile files, each read or refused with a reason, others read as if they were not there"
    tally(what, count, len(lost), kinds=len(kinds), refused=len(unreadable))


@pytest.mark.soak
def test_every_kind_of_hostile_file_is_done_with_in_time_and_memory(tmp_path, within, tally):
    """One file at a time, and with it the process that decodes it."""
    lost, kinds = [], {**KINDS, **HEAVY}
    for kind, make in kinds.items():
        (path,) = corpus(tmp_path / kind.replace(" ", "-"), 1, seed=len(kind), kinds={kind: make})
        try:
            with within(SECONDS, MEGABYTES):
                from_paths([path], (28, 28))
        except Exception:
            lost.append(kind)
    print(*lost, sep="\n")
    tally("images: one file of each kind, within 12 s of processor time and 500 MB", len(kinds), len(lost))


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_no_image(tmp_path, kind):
    (path,) = corpus(tmp_path, 1, seed=3, kinds={kind: BROKEN[kind]})
    assert from_paths([path], (28, 28))[1][0].kind is Kind.UNREADABLE


def tensors_of(model):
    calibration = torch.tensor(model.calibration.scores)
    return {**model.method.state_dict(), **model.reference, "calibration": calibration}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


FITS = [("pca", "auto"), ("pca", 32), ("pca", (28, 40))]
MORE = [("knn", "auto"), ("surprisal", 28), ("pretrained", "auto"), ("pretrained", (32, 48))]


@pytest.mark.parametrize(
    ("good", "bad", "fits"), [(60, 43, FITS), pytest.param(1_000, 50, FITS + MORE, marks=pytest.mark.soak)]
)
def test_bad_files_change_no_bit_of_what_is_learnt(tmp_path, tally, good, bad, fits):
    write_good(tmp_path / "clean", good)
    write_good(tmp_path / "mixed", good)
    corpus(tmp_path / "mixed", bad, seed=bad, kinds=BROKEN)
    lost = [one for one in fits if not learns_the_same(tmp_path / "clean", tmp_path / "mixed", good, bad, *one)]
    print(*lost, sep="\n")
    tally(f"images: fits with {bad} bad files among {good}, bit by bit", len(fits), len(lost))


def learns_the_same(clean, mixed, good, bad, method, size):
    """Of as many good images, with as many skipped, to the last bit; an error is no."""
    try:
        one, other = (detector(method, size=size).fit(where, allow_collapse=True).model for where in (clean, mixed))
    except NormscopeError as error:
        print(method, size, error)
        return False
    counts = [(model.card["data"]["images"], model.card["data"]["skipped"]) for model in (one, other)]
    return counts == [(good, 0), (good, bad)] and same(tensors_of(one), tensors_of(other))


def test_bad_files_do_not_change_which_method_is_chosen(tmp_path):
    """Of images of which half are grey and small, and half are large and in colour, whatever lies among them."""
    from normscope.choice import resolved

    chosen = set()
    for number in range(4):
        folder = tmp_path / str(number)
        write_good(folder, 24)
        for path in sorted(folder.iterdir())[::2]:
            Image.open(path).convert("L").resize((40, 40)).save(path)
        for path in sorted(folder.iterdir())[1::2]:
            Image.open(path).convert("RGB").resize((90, 90)).save(path)
        corpus(folder, 40 * number, seed=number, kinds=BROKEN)
        chosen.add(resolved(Detector().options, folder, anomalies=False)[1])
    assert len(chosen) == 1
