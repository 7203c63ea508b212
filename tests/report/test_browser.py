"""The report as people use it, in a real Chromium: Debian's package, driven by Playwright."""

import csv
import shutil
from collections.abc import Callable
from contextlib import chdir
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.images.notation import from_printable
from normscope.model import Model, Row, load
from normscope.report.gathering import Gathering
from normscope.report.page import page as render

HOSTILE = [
    '<img src=x onerror="alert(1)">.png',
    "=1+1.png",
    f'a "quoted", {"b" * 200}.png',
    "two\nlines.png",
    "</span><script>alert(2)",
]
DECODE = "(all) => Promise.all(all.map((one) => { one.loading = 'eager'; return one.decode(); }))"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LOOKS = [
    pytest.param({}, id="light", marks=pytest.mark.slow),
    pytest.param({"color_scheme": "dark"}, id="dark"),
    pytest.param(PHONE, id="phone", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def model(explaining) -> Model:
    return load(explaining)


@pytest.fixture(scope="module")
def folder(parts, tmp_path_factory) -> Path:
    """The images of `parts`, and some whose names are not what names should be."""
    folder = tmp_path_factory.mktemp("images")
    shutil.copytree(parts, folder, dirs_exist_ok=True)
    for number, name in enumerate(HOSTILE):
        path = folder / name.replace("/", "∕")
        pixels = np.random.default_rng(number).integers(0, 256, (30, 90), np.uint8)
        Image.fromarray(pixels).save(path, format="PNG")
    return folder


@pytest.fixture(scope="module")
def gathered(model, folder) -> Gathering:
    with chdir(folder):
        paths = sorted(path for path in Path().rglob("*") if path.is_file())
        gathering = Gathering(len(paths))
        for path, scored in zip(paths, model.scored(paths, with_heat=True), strict=True):
            gathering.add(path, scored)
    # One that is exactly at the threshold, which is not above it; it has no picture.
    gathering.rows += scored_rows(model, {"at the threshold.png": model.calibration.threshold})
    gathering.expected += 1
    return gathering


def scored_rows(model: Model, scores: dict[str, float]) -> list[Row]:
    """Of images that have these scores."""
    verdicts = model.verdicts(np.array([*scores.values()]))
    return [model.row(Path(name), None, *one) for (name, *one) in zip(scores, scores.values(), verdicts, strict=True)]


@pytest.fixture(scope="module")
def file(gathered, model, tmp_path_factory) -> Path:
    """The report itself."""
    return saved(gathered, model, tmp_path_factory.mktemp("report") / "report.html")


def saved(gathering: Gathering, model: Model, path: Path) -> Path:
    path.write_text(render(gathering, model, "model.safetensors", "0" * 64, datetime(2026, 1, 1)), encoding="utf-8")
    return path


@pytest.fixture
def opened(window, file) -> Callable:
    """`opened(color_scheme="dark")` → the report in a window of its own, which asks for no other file."""
    return lambda path=file, **options: window(path.as_uri(), "file:", **options)


def labels(page) -> list[str]:
    return page.locator("#ranked tbody .label").all_inner_texts()


def shown_paths(page) -> list[str]:
    return page.locator("#ranked tbody .path").all_text_contents()


def scores_of(gathered) -> np.ndarray:
    """In the order of the ranks."""
    return np.sort([row["score"] for row in gathered.rows if row["score"] is not None])[::-1]


def slide(page, value: int) -> None:
    page.locator("#threshold").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def verdicts(page, folder: Path) -> dict[Path, str]:
    """What is downloaded."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download verdicts").click()
    assert waiting.value.suggested_filename == "verdicts.csv"
    waiting.value.save_as(folder / "verdicts.csv")
    with (folder / "verdicts.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert all(list(row) == ["path", "verdict"] for row in rows)
    assert not [row["path"] for row in rows if row["path"][:1] in "=+-@"]
    return {from_printable(row["path"]): row["verdict"] for row in rows}


def test_it_opens_and_shows_what_was_found(opened, gathered, model):
    page = opened()
    scored = [row for row in gathered.rows if row["score"] is not None]
    flagged = sum(row["anomalous"] for row in scored)
    assert page.locator("h1").inner_text() == f"{flagged} of {len(scored)} images are anomalous"
    assert page.get_by_role("img", name="Histogram of 18 scores").locator("rect").count() > 10
    assert page.locator("#ranked tbody tr").count() == len(scored) == 18
    assert labels(page) == ["anomalous"] * flagged + ["normal"] * (len(scored) - flagged)
    assert "cut-off.png" in page.get_by_role("region", name="1 file could not be read").inner_text()
    assert "surprisal" in page.get_by_role("region", name="The model").inner_text()
    pictures = page.locator("#ranked img")
    assert pictures.count() == 34
    pictures.evaluate_all(DECODE)  # rejects if one is broken


def test_the_slider_labels_anew_and_says_its_rate(opened, gathered, model):
    page = opened()
    scores, known = scores_of(gathered), model.calibration
    axis = page.evaluate("report.axis")
    for value in (0, 150, 420, 800, 1000):
        slide(page, value)
        bent = axis["low"] + value / 1000 * (axis["high"] - axis["low"])
        threshold = axis["centre"] + axis["width"] * np.sinh(bent)
        rate = float(known.p_values([np.nextafter(threshold, np.inf)])[0])
        flagged = int((scores > threshold).sum())
        said = page.locator("#rate").inner_text()
        assert f"{flagged} anomalous" in said
        assert f"; {known.bound} {100 * rate:.3g}\u00a0% of normal images are flagged" in said
        assert labels(page) == ["anomalous"] * flagged + ["normal"] * (len(scores) - flagged)
        assert f"{flagged} of {len(scores)} images" in page.locator("h1").inner_text()
    page.get_by_role("button", name="Back to the model").click()
    assert labels(page).count("anomalous") == (scores > known.threshold).sum()
    assert page.locator("#rate").get_attribute("aria-live") == "polite"


def test_the_slider_by_keyboard(opened):
    page = opened()
    page.get_by_role("slider", name="Threshold").focus()
    page.keyboard.press("Home")
    assert set(labels(page)) == {"anomalous"}
    page.keyboard.press("End")
    assert set(labels(page)) == {"normal"}
    assert "of normal images" in page.locator("#threshold").get_attribute("aria-valuetext")


def test_filter_find_and_order(opened, gathered):
    page = opened()
    paths = shown_paths(page)
    flagged = [row["path"] for row in gathered.rows if row["anomalous"]]
    page.get_by_label("Show").select_option("anomalous")
    assert sorted(shown_paths(page)) == sorted(flagged)
    slide(page, 1000)
    page.locator("#ranked tbody tr").first.wait_for(state="detached")
    page.get_by_role("button", name="Back to the model").click()
    page.get_by_label("Show").select_option("normal")
    assert len(shown_paths(page)) == len(paths) - len(flagged)
    page.get_by_label("Show").select_option("all")
    page.get_by_label("Order").select_option("path")
    assert shown_paths(page) == sorted(paths)
    page.get_by_label("Order").select_option("low")
    assert shown_paths(page) == paths[::-1]
    page.get_by_label("Find").fill("BAD/")
    assert sorted(shown_paths(page)) == [f"bad/{number}.png" for number in range(4)]
    assert page.locator("#count").inner_text() == "4 images of 18"


def test_review_by_keyboard_and_download(opened, tmp_path):
    page = opened()
    paths = [from_printable(path) for path in shown_paths(page)]
    assert page.get_by_role("button", name="Download verdicts").is_disabled()
    for key in "afsaf":
        page.keyboard.press(key)
    page.keyboard.press("j")
    page.keyboard.press("f")
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.keyboard.press("A")
    said = {paths[0]: "anomalous", paths[1]: "fine", paths[3]: "anomalous", paths[4]: "fine"}
    said |= {paths[5]: "anomalous", paths[6]: "fine"}
    assert verdicts(page, tmp_path) == said
    assert page.locator("#ranked tbody tr").nth(2).locator(".reviewed").inner_text() == "skipped"
    assert page.locator("#progress").inner_text() == "7 images reviewed, 6 verdicts"


def test_every_path_comes_back_from_the_download(opened, gathered, tmp_path):
    page = opened()
    while page.locator("#progress").inner_text() != "18 images reviewed, 18 verdicts":
        page.keyboard.press("f")
    expected = {from_printable(row["path"]) for row in gathered.rows if row["score"] is not None}
    assert verdicts(page, tmp_path) == dict.fromkeys(expected, "fine")
    assert Path("=1+1.png") in expected
    assert Path("two\nlines.png") in expected


def test_review_by_mouse_and_after_a_reload(opened, tmp_path):
    page = opened()
    paths = [from_printable(path) for path in shown_paths(page)]
    page.locator("#ranked tbody tr").nth(3).click()
    page.get_by_role("button", name="Fine").click()
    assert page.locator("#ranked tbody tr").nth(4).get_attribute("aria-current") == "true"
    page.get_by_role("button", name="Previous").click()
    assert page.get_by_role("button", name="Fine").get_attribute("aria-pressed") == "true"
    page.reload()
    assert verdicts(page, tmp_path) == {paths[3]: "fine"}


def test_keys_are_text_where_text_is_typed_and_can_be_switched_off(opened):
    page = opened()
    page.get_by_label("Find").press_sequentially("faha")
    assert page.locator(".reviewed").count() == 0
    assert page.get_by_label("Heat maps").is_checked()
    page.get_by_label("Find").fill("")
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("f")
    assert page.locator(".reviewed").count() == 0


def test_heat_maps_by_key_and_by_button(opened):
    page = opened()
    heat = page.locator("#ranked .heat").first
    stage = page.locator(".stage")
    hot = stage.screenshot()
    assert heat.is_visible()
    page.keyboard.press("h")
    assert not heat.is_visible()
    assert stage.screenshot() != hot
    page.get_by_label("Heat maps").check()
    assert heat.is_visible()
    first, over = page.locator("#ranked .thumb").first.bounding_box(), heat.bounding_box()
    assert over == pytest.approx(first, abs=1)


@pytest.mark.parametrize("options", [{}, PHONE])
def test_an_image_is_reviewed_in_its_own_shape_under_its_heat(opened, options):
    """Wide ones too, of 30 by 90 pixels."""
    page = opened(**options)
    wide = page.locator("#ranked tbody tr", has_text="=1+1.png")
    wide.click()
    thumb, heat = page.locator(".stage .thumb"), page.locator(".stage .heat")
    shape = thumb.bounding_box()
    assert shape["width"] == pytest.approx(3 * shape["height"], rel=0.02)
    assert shape["width"] > 300
    assert heat.bounding_box() == pytest.approx(shape, abs=1)


def test_without_script_it_is_a_ranked_table(opened, gathered):
    page = opened(java_script_enabled=False)
    rows = page.locator("#ranked tbody tr")
    assert rows.count() == 18
    assert page.locator("#ranked .rank.number").all_inner_texts() == ["Rank", *map(str, range(1, 19))]
    shown = [
        float(text.replace("−", "-")) for text in page.locator("#ranked tbody td.number:nth-child(4)").all_inner_texts()
    ]
    assert shown == pytest.approx(scores_of(gathered).tolist(), abs=0.01)
    assert page.locator("#threshold").is_hidden()
    assert page.locator("#viewer").is_hidden()
    assert page.locator("noscript").is_visible()
    assert page.locator("#ranked .heat").first.is_visible()
    page.get_by_label("Heat maps").uncheck()
    assert not page.locator("#ranked .heat").first.is_visible()


def test_names_are_shown_as_they_are_and_do_nothing(opened, gathered):
    page = opened()
    assert sorted(shown_paths(page)) == sorted(row["path"] for row in gathered.rows if row["score"] is not None)
    for _ in range(18):
        page.keyboard.press("j")  # each is shown beside the table too
    assert page.locator("script").count() == 2
    assert page.evaluate("document.querySelectorAll('img:not([src^=\"data:\"])').length") == 0


def test_dark_is_dark(opened):
    def lightness(page) -> float:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 3

    assert lightness(opened(color_scheme="dark")) < 60 < 200 < lightness(opened(color_scheme="light"))


def test_a_phone_scrolls_in_one_direction_and_can_review(opened, tmp_path):
    page = opened(**PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#viewer").is_hidden()
    page.locator("#ranked tbody tr").nth(1).tap()
    assert page.locator("#viewer").is_visible()
    page.get_by_role("button", name="Anomalous").tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert len(verdicts(page, tmp_path)) == 1
    page.get_by_role("button", name="Close").tap()
    assert page.locator("#viewer").is_hidden()


@pytest.mark.parametrize("options", LOOKS)
def test_axe_finds_nothing_wrong(opened, options):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(**options)
    page.locator("#ranked tbody tr").first.click()
    page.get_by_label("Heat maps").evaluate("box => box.click()")
    found = Axe().run(page)
    assert [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found.response["violations"]] == []


@pytest.mark.slow
def test_ten_thousand_rows_stay_usable(opened, model, tmp_path):
    gathering = Gathering(10_000)
    scores = np.random.default_rng(0).normal(0, 3, 10_000).tolist()
    gathering.rows = scored_rows(model, {f"some/folder/{index:05}.png": score for index, score in enumerate(scores)})
    page = opened(saved(gathering, model, tmp_path / "large.html"))
    assert "the other 9,000 are rows without one" in page.locator("main").inner_text()
    milliseconds = page.evaluate(
        "() => { const start = performance.now(); setThreshold(-99); return performance.now() - start; }"
    )
    assert milliseconds < 1000
    assert page.locator("h1").inner_text() == "10,000 of 10,000 images are anomalous"
    assert page.locator("#ranked tbody tr").count() < 1000
    page.get_by_label("Find").fill("09999")
    assert shown_paths(page) == ["some/folder/09999.png"]
