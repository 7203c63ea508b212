"""A hook of mkdocs: the pages that are written from the code each time the site is built, and are no files."""

import command_page
import method_pages
import python_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The methods join the navigation, where it has a place for them."""
    for entry in config.nav:
        if "Methods" in entry:
            entry["Methods"] = list(method_pages.pages())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> dict[str, str]:
    """Markdown by the path of the page."""
    return {"command_line.md": command_page.page(), "python.md": python_page.page(), **method_pages.pages()}
