"""The site: built strictly, from the code for methods and reference, and without anything from the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from normscope.cli import app
from normscope.methods import method_names

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site):
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 40
    assert {url for page in pages for url in LOADED.findall(page.read_text())} == set()
    assert not any(re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text()) for style in styles)


def test_a_foreign_script_or_font_would_be_noticed():
    assert LOADED.findall('<script async src="https://a.example/x.js">') == ["https://a.example/x.js"]
    assert LOADED.findall('<link rel="stylesheet" href="//fonts.example/css">') == ["//fonts.example/css"]
    assert not LOADED.findall('<a href="https://a.example/">')


def test_every_method_and_verb_has_its_place(site):
    for name in method_names():
        assert f"<code>{name}</code>" in (site / "methods" / f"{name}.html").read_text()
    reference = (site / "command_line.html").read_text()
    assert all(f"Usage: normscope {one.callback.__name__}" in reference for one in app.registered_commands)
    assert 'id="detectorexplain"' in (site / "python.html").read_text()


def test_scripts_are_no_part_of_it(site):
    assert not list(site.rglob("*.py"))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_are_valid_on_a_repository_page(page):
    """Also without the site: every relative link is a file."""
    links = [link for link in LINK.findall((ROOT / page).read_text()) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []
