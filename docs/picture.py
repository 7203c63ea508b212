"""Draws docs/demo.png from what `normscope demo` left in normscope-demo/: images by how surprising they are."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from normscope import load

DEMO = Path("normscope-demo")
TILE, GAP, COLUMNS, ROWS = 56, 12, 12, 3
RED, GREY, INK = (200, 40, 40), (190, 190, 190), (40, 40, 40)
Row = dict[str, object]


def main() -> None:
    detector = load(DEMO / "model.safetensors")
    trained = detector.card["data"]["trained_on"]
    rows = sorted(detector.score_paths(sorted((DEMO / "mixed").iterdir())), key=lambda row: row["score"])
    count = COLUMNS * ROWS
    shown = [rows[round(index * (len(rows) - 1) / (count - 1))] for index in range(count)]
    width = COLUMNS * (TILE + GAP) + GAP
    picture = Image.new("RGB", (width, 60 + TILE + 60 + ROWS * (TILE + 22)), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    draw.text((GAP, 12), f"learnt from {trained} images like these:", INK, font)
    for column, path in enumerate(sorted((DEMO / "good").iterdir())[:COLUMNS]):
        paste(picture, path, GAP + column * (TILE + GAP), 40, GREY)
    top = 40 + TILE + 20
    draw.text(
        (GAP, top),
        f"every {len(rows) // count}th of {len(rows)} new images, least surprising first; flagged in red:",
        INK,
        font,
    )
    small = ImageFont.load_default(12)
    for index, row in enumerate(shown):
        left, upper = GAP + index % COLUMNS * (TILE + GAP), top + 28 + index // COLUMNS * (TILE + 22)
        colour = RED if row["anomalous"] else GREY
        paste(picture, Path(row["path"]), left, upper, colour)
        draw.text((left, upper + TILE + 3), f"{row['score']:.1f}", colour if row["anomalous"] else INK, small)
    picture.save("docs/demo.png", optimize=True)


def paste(picture: Image.Image, path: Path, left: int, upper: int, colour: tuple[int, int, int]) -> None:
    with Image.open(path) as image:
        picture.paste(image.convert("RGB").resize((TILE, TILE), Image.Resampling.NEAREST), (left, upper))
    ImageDraw.Draw(picture).rectangle((left - 2, upper - 2, left + TILE + 1, upper + TILE + 1), outline=colour, width=2)


if __name__ == "__main__":
    main()
