import gzip
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

from normscope.datasets import fetch as module
from normscope.datasets.fetch import fetch
from normscope.datasets.published import Download, Published
from normscope.errors import DatasetError

CONTENT = np.random.default_rng(0).bytes(300_000)
PACKED = gzip.compress(CONTENT, mtime=0)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
def source(server) -> Published:
    """One packed file of 300 kB."""
    server.files["/data.gz"] = PACKED
    download = Download(f"{server.url}/data.gz", md5(PACKED), ("data",))
    return Published("some", "https://example.org", "some", {"data": md5(CONTENT)}, (download,))


def tar_of(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def archived(server, content: bytes) -> Published:
    server.files["/some.tar.gz"] = content
    download = Download(f"{server.url}/some.tar.gz", md5(content), ("one", "two"))
    return Published("some", "https://example.org", "some", {"one": md5(b"1"), "two": md5(b"2")}, (download,))


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(source, root) -> str:
    with pytest.raises(DatasetError) as error:
        fetch(source, root)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_whole_download_and_none_the_second_time(server, source, tmp_path):
    told = []
    assert fetch(source, tmp_path / "root", lambda *now: told.append(now)) == tmp_path / "root" / "some"
    assert (tmp_path / "root/some/data.gz").read_bytes() == PACKED
    assert names(tmp_path / "root/some") == ["data.gz"]
    assert told[-1] == (f"{server.url}/data.gz", len(PACKED), len(PACKED))
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})
    assert fetch(source, tmp_path / "root") == tmp_path / "root" / "some"
    assert server.ranges == [None]


def test_files_that_are_there_unpacked_are_not_fetched(server, source, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some/data").write_bytes(CONTENT)
    fetch(source, tmp_path)
    assert server.ranges == []


def test_a_damaged_file_is_fetched_again(server, source, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some/data.gz").write_bytes(PACKED[:-9])
    fetch(source, tmp_path)
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED


def test_a_dropped_connection_is_taken_up_where_it_was_cut(server, source, tmp_path):
    server.cuts = [100_000, 50_000]
    fetch(source, tmp_path)
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_the_next_call_goes_on_where_the_last_one_gave_up(server, source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 1)
    server.cuts = [100_000]
    assert "data.gz cannot be downloaded (the connection ended after 100000 of" in refused(source, tmp_path)
    assert names(tmp_path / "some") == ["data.gz.part"]
    fetch(source, tmp_path)
    assert server.ranges == [None, "bytes=100000-"]
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED
    assert names(tmp_path / "some") == ["data.gz"]


def test_a_server_without_ranges_sends_all_again(server, source, tmp_path):
    server.knows_ranges = False
    server.cuts = [100_000]
    fetch(source, tmp_path)
    assert server.ranges == [None, "bytes=100000-"]
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED


def test_a_server_that_says_no_length(server, source, tmp_path):
    server.says_length = False
    told = []
    fetch(source, tmp_path, lambda *now: told.append(now))
    assert told[-1][1:] == (len(PACKED), None)


@pytest.mark.parametrize("left", [b"something else", bytes(len(PACKED)), bytes(len(PACKED) + 5)])
def test_a_part_of_something_else_is_thrown_away(server, source, tmp_path, left):
    (tmp_path / "some").mkdir()
    (tmp_path / "some/data.gz.part").write_bytes(left)
    fetch(source, tmp_path)
    assert server.ranges == [f"bytes={len(left)}-", None]
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED


def test_a_part_that_is_whole_is_only_checked(server, source, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some/data.gz.part").write_bytes(PACKED)
    fetch(source, tmp_path)
    assert server.ranges == [f"bytes={len(PACKED)}-"]  # which the server answers with 416
    assert names(tmp_path / "some") == ["data.gz"]


def test_a_wrong_checksum_leaves_nothing(server, source, tmp_path):
    server.files["/data.gz"] = b"something else"
    line = refused(source, tmp_path)
    assert f"data.gz gave 14 bytes with MD5 {md5(b'something else')}, expected MD5 {md5(PACKED)}" in line
    assert names(tmp_path / "some") == []
    assert server.ranges == [None]


@pytest.mark.parametrize("says_length", [True, False])
def test_a_download_without_end_is_stopped_and_leaves_nothing(server, source, tmp_path, monkeypatch, says_length):
    monkeypatch.setattr(module, "LARGEST", len(PACKED) - 1)
    server.says_length = says_length
    assert f"data.gz has more than {len(PACKED) - 1:,} bytes" in refused(source, tmp_path)
    assert (names(tmp_path / "some"), len(server.ranges)) == ([], 1)
    monkeypatch.setattr(module, "LARGEST", len(PACKED))
    fetch(source, tmp_path)


def test_what_the_server_has_not_is_asked_for_once(server, source, tmp_path):
    server.files.clear()
    assert f"{server.url}/data.gz cannot be downloaded (the server says 404 Not Found)" in refused(source, tmp_path)
    assert server.ranges == [None]
    assert names(tmp_path / "some") == []


def test_a_server_in_trouble_is_asked_again(server, source, tmp_path):
    server.status = 503
    assert "the server says 503" in refused(source, tmp_path)
    assert len(server.ranges) == module.TRIES


def test_nobody_listens(server, source, tmp_path):
    server.shutdown()
    server.server_close()
    assert "data.gz cannot be downloaded ([Errno" in refused(source, tmp_path)


def test_a_server_that_falls_silent_counts_as_dropped(server, source, tmp_path, monkeypatch):
    real = module.urlopen

    def urlopen(request, timeout):
        assert timeout == module.SILENCE
        answer = real(request, timeout=timeout)
        blocks = [answer.read(1000)]

        def read1(size):
            if blocks:
                return blocks.pop()
            raise TimeoutError("timed out")

        answer.read1 = read1
        return answer

    monkeypatch.setattr(module, "urlopen", urlopen)
    monkeypatch.setattr(module, "TRIES", 2)
    assert "cannot be downloaded (timed out)" in refused(source, tmp_path)
    assert server.ranges == [None, "bytes=1000-"]
    assert (tmp_path / "some/data.gz.part").read_bytes() == PACKED[:2000]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_killed_in_the_middle(server, source, tmp_path):
    server.crawl_after = 100_000
    script = f"""
from pathlib import Path
from normscope.datasets.fetch import fetch
from normscope.datasets.published import Download, Published
fetch({source!r}, Path({str(tmp_path)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    part = tmp_path / "some/data.gz.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size == 100_000) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(tmp_path / "some") == ["data.gz.part"]
    server.crawl_after = None
    fetch(source, tmp_path)
    assert server.ranges == [None, "bytes=100000-"]
    assert (tmp_path / "some/data.gz").read_bytes() == PACKED


def test_a_disk_that_takes_nothing_is_not_blamed_on_the_network(server, source, tmp_path):
    (tmp_path / "some/data.gz.part").mkdir(parents=True)
    assert "data.gz.part cannot be written (Is a directory)" in refused(source, tmp_path)
    assert len(server.ranges) == 1
    (tmp_path / "file").write_text("")
    assert "file" in refused(source, tmp_path / "file")


def test_an_archive_is_unpacked_and_goes(server, tmp_path):
    source = archived(server, tar_of(**{"some/one": b"1", "./some/two": b"2", "some/readme": b"3", "two": b"4"}))
    fetch(source, tmp_path)
    assert names(tmp_path) == ["some"]
    assert names(tmp_path / "some") == ["one", "two"]
    assert (tmp_path / "some/two").read_bytes() == b"2"
    fetch(source, tmp_path)
    assert server.ranges == [None]


def test_an_archive_that_is_already_there_is_unpacked(server, tmp_path):
    content = tar_of(**{"some/one": b"1", "some/two": b"2"})
    source = archived(server, content)
    (tmp_path / "some").mkdir()
    (tmp_path / "some/some.tar.gz").write_bytes(content)
    fetch(source, tmp_path)
    assert (names(tmp_path / "some"), server.ranges) == (["one", "two"], [])


@pytest.mark.parametrize("escape", ["../evil", "some/../../evil", "/tmp/evil"])
def test_an_archive_that_reaches_out_is_refused(server, tmp_path, escape):
    content = tar_of(**{"some/one": b"1", "some/two": b"2", escape: b"3"})
    assert f"has a member {escape!r} outside of its folder" in refused(archived(server, content), tmp_path / "root")
    assert names(tmp_path / "root/some") == ["some.tar.gz"]
    assert names(tmp_path) == ["root"]


def test_an_archive_of_links_or_without_the_files_is_refused(server, tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        member = tarfile.TarInfo("some/one")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    for content in (stream.getvalue(), tar_of(**{"other/one": b"1", "one": b"1"})):
        assert "has no regular file some/one" in refused(archived(server, content), tmp_path)
        assert names(tmp_path / "some") == ["some.tar.gz"]


@pytest.mark.parametrize("content", [b"not an archive", tar_of(**{"some/one": CONTENT})[:-1000]])
def test_an_archive_that_is_none_is_refused(server, tmp_path, content):
    assert "some.tar.gz cannot be unpacked" in refused(archived(server, content), tmp_path)


def test_an_archive_of_other_files_is_refused(server, tmp_path):
    source = archived(server, tar_of(**{"some/one": b"1", "some/two": b"22"}))
    assert "two has 2 bytes with MD5" in refused(source, tmp_path)


def test_what_has_to_be_got_by_hand(tmp_path):
    source = Published("some", "https://example.org", "some", {"*/train": None}, by_hand="log in there")
    assert refused(source, tmp_path) == f"some has to be put into {tmp_path / 'some'} by hand: log in there"
    (tmp_path / "some/a/train").mkdir(parents=True)
    assert fetch(source, tmp_path) == tmp_path / "some"


def test_what_needs_no_file():
    assert fetch(Published("none", "here", "", {})) is None
