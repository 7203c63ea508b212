import gzip
import hashlib
import json
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from normscope.cli import datasets as verb
from normscope.datasets import about, mnist, names, summary
from normscope.datasets.published import Download


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("NORMSCOPE_DATA", raising=False)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """mnist as two small files on a server of our own; the folder that it serves."""
    served = tmp_path / "served"
    served.mkdir()
    files = {name: gzip.compress(name.encode()) for name in ("images", "labels")}
    for name, content in files.items():
        (served / f"{name}.gz").write_bytes(content)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=served)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        downloads = tuple(
            Download(f"http://127.0.0.1:{server.server_port}/{name}.gz", hashlib.md5(content).hexdigest(), (name,))
            for name, content in files.items()
        )
        md5 = {name: hashlib.md5(name.encode()).hexdigest() for name in files}
        monkeypatch.setattr(mnist, "PUBLISHED", mnist.PUBLISHED._replace(files=md5, downloads=downloads))
        yield served
        server.shutdown()
        thread.join()


def test_one_line_for_each(run):
    code, out, err = run("datasets")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == names()
    assert all(summary(name) in line for name, line in zip(names(), out.splitlines(), strict=True))
    assert run("datasets", "list").out == out
    listed = json.loads(run("datasets", "--json").out)
    assert listed["digits"] == {"summary": summary("digits"), "complete": True, "missing": []}
    assert listed["cifar10"]["missing"] == list(about("cifar10").files)
    assert [name for name, one in listed.items() if one["complete"]] == ["digits"]


def test_what_is_found_under_the_data_root(run, tmp_path, monkeypatch):
    for name in about("mnist").files:
        path = tmp_path / "mnist" / f"{name}.gz"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for name in ("train.bin", "test.bin"):
        (tmp_path / "cifar-100-binary").mkdir(exist_ok=True)
        (tmp_path / "cifar-100-binary" / name).touch()
    (tmp_path / "imagenet/train/n01440764").mkdir(parents=True)
    found = run("datasets", "--data-root", tmp_path).out
    assert re.findall(r"^(\S+) +found ", found, re.M) == ["cifar100", "digits", "mnist"]
    assert "imagenet       incomplete" in found
    monkeypatch.setenv("NORMSCOPE_DATA", str(tmp_path))
    assert run("datasets").out == found
    listed = json.loads(run("datasets", "--json").out)
    assert listed["imagenet"]["missing"] == ["LOC_synset_mapping.txt", "val/*"]


@pytest.mark.parametrize("name", names())
def test_every_one_can_be_shown(run, name, tmp_path):
    for options in ([], ["--data-root", tmp_path]):
        code, out, _ = run("datasets", "show", name, *options)
        assert code == 0
        assert summary(name) in out
        assert about(name).home in out
        shown = json.loads(run("datasets", "show", name, "--json", *options).out)
        assert shown["files"] == about(name).files
        assert shown["missing"] == list(about(name).files)


def test_the_classes_are_shown(run, tmp_path):
    assert "  9  ankle boot\n" in run("datasets", "show", "fashion-mnist").out
    code, out, err = run("datasets", "show", "imagenet", "--data-root", tmp_path)
    assert (code, "classes:" in out) == (0, False)
    assert "known once the files are" in err
    folder = tmp_path / "imagenet"
    folder.mkdir()
    (folder / "LOC_synset_mapping.txt").write_text("n01440764 tench, Tinca tinca\nn01443537 goldfish\n")
    (folder / "superclasses.json").write_text('{"wild": ["n01440764"], "tame": ["n01443537"]}')
    out = run("datasets", "show", "imagenet", "--data-root", tmp_path).out
    assert "  0  wild\n       n01440764 tench, Tinca tinca\n  1  tame\n       n01443537 goldfish\n" in out
    shown = json.loads(run("datasets", "show", "imagenet", "--data-root", tmp_path, "--json").out)
    assert shown["classes"] == {"wild": ["n01440764 tench, Tinca tinca"], "tame": ["n01443537 goldfish"]}


def test_files_are_fetched_and_found(run, published, tmp_path):
    root = tmp_path / "root"
    code, out, err = run("datasets", "fetch", "mnist", "--data-root", root)
    assert (code, out) == (0, f"{root / 'mnist'}\n")
    assert [line.split()[0] for line in err.splitlines()] == ["fetching", "fetching"]
    assert "images.gz, 0.0 MB" in err
    assert sorted(path.name for path in (root / "mnist").iterdir()) == ["images.gz", "labels.gz"]
    code, out, err = run("datasets", "fetch", "mnist", "--data-root", root, "--json")
    assert (code, json.loads(out), err) == (0, {"name": "mnist", "folder": str(root / "mnist")}, "")


def test_a_bar_on_a_terminal(run, published, tmp_path, monkeypatch):
    monkeypatch.setattr(verb.sys.stderr, "isatty", lambda: True, raising=False)
    with verb.download_bar() as progress:
        progress("http://x/a.gz", 5, None)
        progress("http://x/a.gz", 10, 10)
    assert run("datasets", "fetch", "mnist", "--data-root", tmp_path).code == 0


def test_what_cannot_be_fetched_is_one_line(run, refused, published, tmp_path):
    (published / "labels.gz").unlink()
    code, out, err = run("datasets", "fetch", "mnist", "--data-root", tmp_path)
    assert (code, out) == (2, "")
    assert "labels.gz cannot be downloaded (the server says 404" in err.splitlines()[-1]
    assert err.splitlines()[0].startswith("fetching ")
    assert len(err.splitlines()) == 2
    for name in ("mvtec", "imagenet", "folder"):
        assert f"{name} has to be put into {tmp_path}" in refused("datasets", "fetch", name, "--data-root", tmp_path)
    assert "no data root for mnist" in refused("datasets", "fetch", "mnist")


def test_digits_need_nothing(run):
    assert run("datasets", "fetch", "digits") == (0, "digits needs no files\n", "")


def test_wrong_use(refused):
    assert "'shw' is not one of 'list', 'show', 'fetch'" in refused("datasets", "shw")
    assert "show needs the name of a data set; choose from cifar10" in refused("datasets", "show")
    assert "fetch needs the name" in refused("datasets", "fetch")
    assert "list takes no name" in refused("datasets", "list", "mnist")
    assert "no data set 'nothing'; choose from" in refused("datasets", "show", "nothing")
    assert "no data set '../mnist'" in refused("datasets", "fetch", "../mnist")
