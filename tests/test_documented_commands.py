"""Every command and snippet in README and docs works: parsed in the default run, really run in the slow one.

A fenced block is `sh` (commands), `python` or `text` (neither); those of a page are run one after the other.
"""

import ast
import importlib
import inspect
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
import typer
from PIL import Image

from normscope import Detector, options
from normscope.cli import app, main
from normscope.training.budget import seconds

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^( *)```(.*?)\n(.*?)^\1```$", re.M | re.S)
COMMAND = typer.main.get_command(app)
VERBS = COMMAND.commands
OPTIONS = {"--help", *(name for one in COMMAND.params for name in one.opts)}
SECONDS = 1.0  # to train


class Block(NamedTuple):
    kind: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(kind.strip(), text) for _, kind, text in FENCE.findall(page.read_text())]


def commands(page: Path) -> list[list[str]]:
    """The lines of all `sh` blocks, each as words, without comments."""
    return [words for block in blocks(page) if block.kind == "sh" for words in lines_of(block)]


def lines_of(block: Block) -> list[list[str]]:
    return [words for line in block.text.splitlines() if (words := shlex.split(line, comments=True))]


def mentioned(page: Path) -> list[list[str]]:
    """`normscope …` in a sentence or a table."""
    return [shlex.split(text) for text in re.findall(r"`(normscope [^`…]+)`", FENCE.sub("", page.read_text()))]


def code(page: Path) -> str:
    """All `python` blocks, as one program."""
    return "\n".join(block.text for block in blocks(page) if block.kind == "python")


def with_any(of) -> list:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if of(page)]


def check_parses(words: list[str]) -> None:
    """The verb is there, and takes these arguments and options."""
    _, verb, *arguments = words
    assert verb in VERBS, f"normscope has no verb {verb}"
    VERBS[verb].make_context(verb, arguments)


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(words[1:]) <= set(targets)


def check_pip(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[1] == "install"
    assert all(extra in extras for extra in re.findall(r"normscope\[(\w+)\]", " ".join(words)))


CHECKS = {"normscope": check_parses, "make": check_make, "pip": check_pip, "curl": lambda words: None}


@pytest.mark.parametrize("page", with_any(blocks))
def test_a_block_says_what_it_is(page):
    assert {block.kind for block in blocks(page)} <= {"sh", "python", "text"}
    assert page.read_text().count("```") == 2 * len(blocks(page))
    assert not re.search(r"^ {4}(normscope|pip|make|from|import) ", FENCE.sub("", page.read_text()), re.M)


@pytest.mark.parametrize("page", with_any(commands))
def test_commands_parse(page):
    for words in commands(page):
        CHECKS[words[0]](words)


@pytest.mark.parametrize("page", with_any(mentioned))
def test_commands_in_sentences_parse(page):
    for words in mentioned(page):
        if len(words) == 2 and not words[1].startswith("-"):
            assert words[1] in VERBS  # only the verb is spoken of
        elif words[1].startswith("-"):
            assert words[1] in OPTIONS
        else:
            check_parses(words)


@pytest.mark.parametrize(
    "line", ["normscope fly", "normscope fit good/ --wings", "normscope score m", "normscope recalibrate m v.csv"]
)
def test_a_wrong_command_is_noticed(line):
    with pytest.raises((AssertionError, typer.BadParameter.__mro__[1])):
        check_parses(line.split())


@pytest.mark.parametrize("page", with_any(code))
def test_snippets_name_what_there_is(page):
    check_names(code(page))


@pytest.mark.parametrize(
    "text",
    [
        "from normscope import Detektor",
        "from normscope import Detector\nDetector(budgett=3)",
        "from normscope import Detector\nd = Detector().fit('good')\nd.scores('new')",
        "from normscope import load\nload('m').calibration.thresh",
        "this is no Python",
    ],
)
def test_a_wrong_snippet_is_noticed(text):
    with pytest.raises((AssertionError, SyntaxError, TypeError)):
        check_names(text)


def check_names(text: str) -> None:
    """Imports exist; so do attributes and keywords of what comes from normscope, where annotations tell its type."""
    known: dict[str, object] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            for one in node.names:
                assert hasattr(module, one.name), f"{node.module} has no {one.name}"
                known[one.asname or one.name] = getattr(module, one.name)
            continue
        for found in ast.walk(node):
            if isinstance(found, ast.Call | ast.Attribute):
                value_of(found, known)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = value_of(node.value, known)


@dataclass(frozen=True)
class Instance:
    """Something of this type."""

    kind: type


@dataclass(frozen=True)
class Bound:
    """A method of something of this type."""

    function: object
    owner: type


def value_of(node: ast.expr, known: dict[str, object]) -> object:
    """What an expression is, or None if that is not known."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(owner := value_of(node.value, known), Instance):
        return attribute(owner.kind, node.attr)
    if isinstance(node, ast.Call):
        return result_of_call(value_of(node.func, known), node)
    return None


def attribute(owner: type, name: str) -> object:
    assert hasattr(owner, name) or name in assigned(owner), f"{owner} has no {name}"
    found = inspect.getattr_static(owner, name, None)
    return result_of(found.fget, owner) if isinstance(found, property) else Bound(found, owner)


def result_of_call(called: object, node: ast.Call) -> object:
    """Raises if it does not take these arguments."""
    function, owner = (called.function, called.owner) if isinstance(called, Bound) else (called, None)
    if not callable(function) or not function.__module__.startswith("normscope"):
        return None
    given = [None] * (len(node.args) + (owner is not None))
    inspect.signature(function).bind_partial(*given, **{one.arg: None for one in node.keywords if one.arg})
    return Instance(function) if inspect.isclass(function) else result_of(function, owner)


def assigned(kind: type) -> set[str]:
    """Attributes of instances: fields, and what methods set."""
    return {*getattr(kind, "__dataclass_fields__", {}), *re.findall(r"self\.(\w+)", inspect.getsource(kind))}


def result_of(function, owner: type | None) -> Instance | None:
    """By its annotation: Self, or a class in the module that defines it."""
    name = str(inspect.signature(function).return_annotation)
    if name.endswith("Self"):
        return Instance(owner)
    kind = vars(sys.modules[function.__module__]).get(name) or inspect.signature(function).return_annotation
    return Instance(kind) if inspect.isclass(kind) and kind.__module__.startswith("normscope") else None


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """The folder in which a reader of the docs is."""
    folder = tmp_path_factory.mktemp("documented")
    for number, (name, count) in enumerate({"good": 40, "good2": 8, "bad": 6, "new": 6, "incoming": 3}.items()):
        (folder / name).mkdir()
        images = np.random.default_rng(number).normal(0, 12, (count, 32, 32)) + 120 + 60 * np.sin(np.arange(32) / 3)
        images[:, 8:20, 8:20] += 90 * (name in ("bad", "incoming"))
        for position, image in enumerate(np.clip(images, 0, 255).astype(np.uint8)):
            Image.fromarray(image).save(folder / name / f"{position}.png")
    verdicts = ["new/0.png,fine", "new/1.png,fine", *(f"bad/{n}.png,anomalous" for n in range(6))]
    (folder / "verdicts.csv").write_text("\n".join(["path,verdict", *verdicts, ""]))
    model = Detector("surprisal", settings={"width": 16, "depth": 1}, epochs=0, false_alarm_rate=0.1)
    model.fit(folder / "good", allow_collapse=True)
    for name in ("model", "tile", "board"):
        model.save(folder / f"{name}.safetensors")
    return folder


@pytest.fixture
def here(prepared, tmp_path, monkeypatch, in_this_process) -> Path:
    """A copy of it for one page, in which nothing trains for longer than a second."""
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(options, "DEFAULT_BUDGET", SECONDS)
    monkeypatch.setattr(options, "budget_seconds", lambda text: min(seconds(text), SECONDS))
    notify = folder / "bin" / "notify-send"
    notify.parent.mkdir()
    notify.write_text("#!/bin/sh\n")
    notify.chmod(0o755)
    monkeypatch.setenv("PATH", str(notify.parent), prepend=":")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", with_any(lambda page: code(page) or any(w[0] == "normscope" for w in commands(page))))
def test_documented_blocks_run(page, here):
    names: dict[str, object] = {"__name__": "documented"}
    urls: list[str] = []
    with ExitStack() as ending:
        for block in blocks(page):
            if block.kind == "python":
                exec(compile(block.text, str(page), "exec"), names)
            for words in lines_of(block) if block.kind == "sh" else []:
                run(words, urls, ending)


def run(words: list[str], urls: list[str], ending: ExitStack) -> None:
    """`urls` are of the servers that run so far; what is no command of ours is left out."""
    match words:
        case ["normscope", "serve", *arguments]:
            urls.append(ending.enter_context(serving(arguments)))
        case ["normscope", "watch", *arguments]:
            with started("watch", *arguments) as process:
                until(lambda: Path("rows.csv").exists() and Path("rows.csv").read_text().count(".png") == 3, process)
        case ["normscope", *arguments]:
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            assert not ended.value.code, words
        case ["curl", *arguments]:
            arguments = [word.replace("http://127.0.0.1:8000", urls[-1]) for word in arguments]
            answer = subprocess.run(["curl", "--silent", "--fail", *arguments], capture_output=True, check=True)
            assert [row["error"] for row in json.loads(answer.stdout)] == [None, None]


@contextmanager
def serving(arguments: list[str]) -> Iterator[str]:
    """Its address, at a port that is free."""
    with started("serve", *arguments, "--port", "0", "--json") as process:
        url = json.loads(process.stdout.readline())["url"]
        until(lambda: is_ready(url), process)
        yield url


def is_ready(url: str) -> bool:
    try:
        return urlopen(f"{url}/v2/health/ready").status == 200
    except URLError:
        return False


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen]:
    """A command that goes on until it is told to stop, and then does."""
    process = subprocess.Popen([sys.executable, "-m", "normscope", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


def until(done: Callable[[], bool], process: subprocess.Popen) -> None:
    """Waits for it, ten minutes at most: other work may have the processor."""
    end = time.monotonic() + 600
    while not done():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)
