"""The ranked table of a report: a row for each image, with a picture where there is one."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape

from normscope.images.notation import cell
from normscope.model import Row
from normscope.report.thumbnail import Thumbnail

__all__ = ["ranked", "shown_score", "table_rows", "unreadable_rows"]


def ranked(rows: list[Row]) -> list[int]:
    """Positions of the rows that have a score, the highest first."""
    scored = [position for position, row in enumerate(rows) if row["score"] is not None]
    return sorted(scored, key=lambda position: -(rows[position]["score"] or 0.0))


def table_rows(rows: list[Row], thumbnails: Mapping[int, Thumbnail], decimals: int) -> Iterable[str]:
    """HTML; the exact score is in `data-score`, what stands for the path in a CSV file in `data-cell` if it differs."""
    for rank, position in enumerate(ranked(rows), start=1):
        row, known = rows[position], rows[position]["p_value"] is not None
        flagged = ' class="anomalous"' if row["anomalous"] else ""
        differs = "" if cell(row["path"]) == row["path"] else f' data-cell="{escape(cell(row["path"]))}"'
        p_value = f'<td class="number">{shown_p(row)}</td>' if known else ""
        verdict = f'<span class="label">{"anomalous" if row["anomalous"] else "normal"}</span>' if known else ""
        yield (
            f'<tr data-score="{row["score"]!r}"{flagged}{differs}><td class="rank number">{rank}</td>'
            f'<td class="look">{picture(thumbnails.get(position))}</td>'
            f'<th scope="row"><span class="path">{path(row["path"])}</span>{verdict}</th>'
            f'<td class="number">{shown_score(row["score"] or 0.0, decimals)}</td>{p_value}</tr>\n'
        )


def unreadable_rows(rows: list[Row]) -> list[str]:
    return [
        f'<tr><th scope="row"><span class="path">{path(row["path"])}</span></th><td>{escape(row["error"])}</td></tr>\n'
        for row in rows
        if row["error"] is not None
    ]


def path(text: str) -> str:
    """The name of the file after that of its folder; together they are the path, letter for letter."""
    folder, slash, name = text.rpartition("/")
    return f'<span class="folder">{escape(folder + slash)}</span>{escape(name)}' if slash else escape(name)


def picture(found: Thumbnail | None) -> str:
    if found is None:
        return ""
    size = f'width="{found.width}" height="{found.height}"'
    heat = f'<img class="heat" alt="" src="{data("png", found.heat)}">' if found.heat else ""
    return (
        f'<span class="picture"><img class="thumb" alt="" loading="lazy" {size} '
        f'src="{data("webp", found.image)}">{heat}</span>'
    )


def data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


def shown_score(score: float, decimals: int) -> str:
    return f"{score:.{decimals}f}".replace("-", "−")


def shown_p(row: Row) -> str:
    """The estimate in the tail, marked as one, and the p-value elsewhere; as `normscope score` prints them."""
    estimate = row["p_estimate"]
    return f"{row['p_value']:.3f}" if estimate in (None, row["p_value"]) else f"~{estimate:.1g}".replace("-", "−")
