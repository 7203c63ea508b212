"""The page as people use it, in a real Chromium: Debian's package, driven by Playwright."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from normscope.server.app import make_app
from normscope.server.limits import Limits

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LOOKS = [
    pytest.param({}, id="light", marks=pytest.mark.slow),
    pytest.param({"color_scheme": "dark"}, id="dark"),
    pytest.param(PHONE, id="phone", marks=pytest.mark.slow),
]
DECODE = "(all) => Promise.all(all.map((one) => one.decode()))"


@pytest.fixture(scope="module")
def url(served, model) -> Iterator[str]:
    with served(make_app(lambda: {"parts": model, "strict": model.at(0.05)}, Limits(body=200_000))) as address:
        yield address


@pytest.fixture
def opened(window, url) -> Callable:
    """`opened(color_scheme="dark")` → the page in a window of its own, which asks this server alone."""
    return lambda address=url, **options: window(address, address, **options)


@pytest.fixture
def images(parts) -> list[Path]:
    """Four with a patch, eight good ones, and one that cannot be read."""
    return [*sorted((parts / "bad").iterdir()), *sorted((parts / "good").iterdir()), parts / "cut-off.png"]


def upload(page, paths, within=20, of=None):
    """Chooses files, and waits until all of them (`of`, if there were others before) are scored."""
    page.get_by_text("Ready", exact=True).wait_for()
    with page.expect_file_chooser() as waiting:
        page.get_by_role("button", name="Choose images").click()
    waiting.value.set_files(paths)
    count = of or len(paths)
    page.get_by_text(f"{count} image{'' if count == 1 else 's'} done", exact=True).wait_for(timeout=1000 * within)


def names(page) -> list[str]:
    return page.locator("#table tbody .path").all_text_contents()


def labels(page) -> list[str]:
    return page.locator("#table tbody .label").all_inner_texts()


def test_images_are_dropped_and_seen_with_score_verdict_and_heat_map(opened, images, model):
    page = opened()
    upload(page, images)
    rows = sorted(model.rows(images[:-1]), key=lambda row: -row["score"])
    flagged = sum(row["anomalous"] for row in rows)
    assert page.locator("h1").inner_text() == f"{flagged} of 12 images are anomalous"
    assert "at most 10\u00a0% of normal images exceed. 1 file could not be read" in page.locator("#lead").inner_text()
    assert labels(page) == ["anomalous"] * flagged + ["normal"] * (12 - flagged) + ["not readable"]
    shown = page.locator("#table tbody td:nth-child(3)").all_inner_texts()[:12]
    assert [float(text.replace("−", "-")) for text in shown] == pytest.approx([row["score"] for row in rows], rel=1e-3)
    assert page.locator("#table .heat").count() == page.locator("#table .thumb").count() == 12
    page.locator("#table img").evaluate_all(DECODE)  # rejects if one is broken
    assert page.locator("#table .heat").first.is_visible()
    page.keyboard.press("h")
    assert not page.locator("#table .heat").first.is_visible()


def test_a_file_that_cannot_be_read_stands_beside_the_others(opened, images, tmp_path):
    page = opened()
    large = tmp_path / "large.png"
    large.write_bytes(bytes(300_000))
    upload(page, [images[-1], images[0], large])
    broken = page.locator("#table tbody tr.unreadable")
    assert broken.count() == 2
    assert "not a readable PNG" in broken.filter(has_text="cut-off.png").inner_text()
    assert "0.3 MB, and a request may have 0.2 MB (--max-body-mb)" in broken.filter(has_text="large.png").inner_text()
    page.get_by_label("Show").select_option("unreadable")
    assert sorted(names(page)) == ["cut-off.png", "large.png"]


@pytest.mark.slow
def test_two_hundred_images_at_once(opened, tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number:03}.png" for number in range(200)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (32, 40), np.uint8)).save(path)
    page = opened()
    upload(page, paths, within=60)
    assert sorted(names(page)) == [path.name for path in paths]
    page.get_by_label("Order").select_option("given")
    assert page.locator("#table tbody tr").count() == 200


def test_a_folder_is_taken_with_its_folders_and_without_what_is_no_image(opened, parts, tmp_path):
    folder = tmp_path / "lot"
    shutil.copytree(parts, folder)
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes(b"")
    page = opened()
    page.get_by_text("Ready", exact=True).wait_for()
    page.locator("#folder").set_input_files(folder)
    page.get_by_text("13 images done", exact=True).wait_for()
    assert "lot/bad/0.png" in names(page)
    assert not {"lot/notes.txt", "lot/.hidden.png"} & set(names(page))


def test_files_can_be_dropped(opened, images):
    page = opened()
    page.get_by_text("Ready", exact=True).wait_for()
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in images[:2]], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})
    page.get_by_text("2 images done", exact=True).wait_for()
    assert sorted(names(page)) == ["0.png", "1.png"]


def test_one_image_is_seen_large_by_keyboard(opened, images):
    page = opened()
    upload(page, images[:3])
    order = names(page)
    page.get_by_role("button", name=f"Enlarge {order[0]}").focus()
    page.keyboard.press("Enter")
    viewer = page.get_by_role("dialog", name=order[0])
    assert viewer.is_visible()
    assert "anomalous" in viewer.inner_text()
    image, heat = viewer.locator(".thumb").bounding_box(), viewer.locator(".heat").bounding_box()
    assert heat == pytest.approx(image, abs=1)
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("dialog", name=order[1]).is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#viewer").is_hidden()
    expect(page.get_by_role("button", name=f"Enlarge {order[1]}")).to_be_focused()


def test_models_by_name_each_with_its_card(opened, images):
    page = opened()
    upload(page, images[4:8])
    page.get_by_role("combobox", name="Model").select_option("strict")
    assert names(page) == []
    card = page.get_by_role("region", name="The model").inner_text()
    assert "strict" in card
    assert "false-alarm rate of 5 %" in card
    upload(page, images[:1])
    assert names(page) == ["0.png"]


def test_history_is_there_for_the_next_visitor(opened, images):
    upload(opened(), images[:2])
    page = opened()
    recent = page.get_by_role("region", name="Scored lately")
    recent.wait_for()
    assert "1.png" in recent.inner_text()
    recent.locator("img").evaluate_all(DECODE)


def test_the_page_says_when_normal_has_moved(served, model, opened, images):
    with served(make_app(lambda: {"parts": model, "strict": model.at(0.05)})) as address:
        page = opened(address)
        upload(page, images[:4])
        assert page.locator("#moved").is_hidden()
        upload(page, images[:4] * 10, of=44)
        page.locator("#moved").filter(has_text="Normal has moved, or most images are anomalous").wait_for()
        page.get_by_role("combobox", name="Model").select_option("strict")
        page.locator("#moved").wait_for(state="hidden")


def test_names_are_shown_as_they_are_and_do_nothing(opened, images):
    page = opened()
    hostile = ['<img src=x onerror="alert(1)">.png', "=1+1.png", "b" * 200 + ".png", "</td><script>alert(2)</script>"]
    page.get_by_text("Ready", exact=True).wait_for()
    content = images[0].read_bytes()
    page.locator("#files").set_input_files([{"name": n, "mimeType": "image/png", "buffer": content} for n in hostile])
    page.get_by_text("4 images done", exact=True).wait_for()
    assert sorted(names(page)) == sorted(
        name.replace('"', "%22") if name not in names(page) else name for name in hostile
    )
    assert page.locator("script").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_a_token_is_asked_for(browser, served, model, opened, images):
    with served(make_app(lambda: {"parts": model}, token="let-me-in")) as address:
        page = opened(address, allowed="401")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        assert page.get_by_label("Token").is_visible()
        page.get_by_label("Token").fill("let-me-in")
        page.keyboard.press("Enter")
        upload(page, images[:1])
        assert names(page) == ["0.png"]


def test_dark_is_dark(opened):
    def lightness(page) -> float:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 3

    assert lightness(opened(color_scheme="dark")) < 60 < 200 < lightness(opened(color_scheme="light"))


@pytest.mark.parametrize("options", LOOKS)
def test_axe_finds_nothing_wrong_and_nothing_is_cut_off(opened, images, options):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(**options)
    upload(page, images)
    found = Axe().run(page).response["violations"]
    page.locator(".open").first.click()
    found += Axe().run(page).response["violations"]
    assert [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found] == []
    width = options.get("viewport", {"width": 1280})["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_a_busy_server_is_sent_fewer_images_at_a_time(opened, images):
    page, sent = opened(allowed="503"), []

    def busy(route):
        sent.append(route.request.post_data_buffer.count(b'name="files"'))
        if sent[-1] > 2:
            route.fulfill(status=503, headers={"Retry-After": "0"}, json={"error": "busy"})
        else:
            route.continue_()

    page.route("**/score*", busy)
    upload(page, images)
    assert max(sent) == 8
    assert sorted(names(page)) == sorted(path.name for path in images)
