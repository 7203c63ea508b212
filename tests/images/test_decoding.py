import io
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.errors import ImageError, NormscopeError
from normscope.images import decoding
from normscope.images.decoding import SMALL_BYTES, close_idle, decode_file, decode_in_worker, idle
from normscope.images.reader import MAX_BYTES, decode

RNG = np.random.default_rng(0)
NOISE = Image.fromarray(RNG.integers(0, 256, (200, 300, 3), dtype=np.uint8))
START = "import sys; sys.path[:] = sys.argv[1:]; import os, time; from normscope.images import worker; "
MB = 2**20

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has neither the timers nor the limits")


@pytest.fixture
def worker_that(monkeypatch):
    """Starts workers after a change of theirs, written in Python."""

    def change(code):
        close_idle()
        monkeypatch.setattr(decoding, "START", f"{START}{code}\nworker.serve()")

    yield change
    close_idle()


@pytest.fixture
def photo(tmp_path):
    NOISE.save(tmp_path / "photo.png")
    assert (tmp_path / "photo.png").stat().st_size > SMALL_BYTES
    return tmp_path / "photo.png"


def outcome(path):
    try:
        return decode_file(path, (8, 8)).shape
    except ImageError as error:
        return str(error)


def test_a_worker_sees_what_the_reader_sees(tmp_path):
    NOISE.save(tmp_path / "a.png", exif=turned())
    NOISE.save(tmp_path / "a.jpg", quality=95)
    NOISE.save(tmp_path / "a.tif", save_all=True, append_images=[NOISE])
    Image.fromarray(np.arange(9, dtype=np.uint16).reshape(3, 3) * 7000).save(tmp_path / "b.tif")
    for path in sorted(tmp_path.iterdir()):
        for size in (None, (16, 16), (11, 30)):
            expected, found = decode(path, size), decode_file(path, size)
            np.testing.assert_array_equal(found.pixels, expected.pixels)
            assert found.pixels.flags.writeable
            facts = ("shape", "format", "mode", "animated")
            assert [getattr(found, fact) for fact in facts] == [getattr(expected, fact) for fact in facts]


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes()


def test_small_files_need_no_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "idle_or_new", lambda: pytest.fail("a worker"))
    for format in decoding.SMALL_FORMATS:
        NOISE.resize((28, 28)).save(tmp_path / "a", format)
        assert decode_file(tmp_path / "a").shape == (28, 28)


def test_a_small_file_of_many_pixels_goes_to_a_worker(tmp_path, monkeypatch):
    Image.new("1", (600, 600)).save(tmp_path / "a.png")
    monkeypatch.setattr(decoding, "decode_in_worker", lambda path, size, max_pixels: "worker")
    assert decode_file(tmp_path / "a.png") == "worker"


def test_a_reason_is_the_readers(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "large.png").write_bytes(b"no image" * SMALL_BYTES)
    for name in ("text.png", "large.png", "missing.png", "."):
        with pytest.raises(ImageError) as expected:
            decode(tmp_path / name)
        assert outcome(tmp_path / name) == str(expected.value)


def test_a_relative_path_follows_the_program(photo, tmp_path, monkeypatch):
    decode_in_worker(photo)  # so that there is a worker, somewhere else
    monkeypatch.chdir(tmp_path)
    assert decode_file(Path(photo.name)).shape == (200, 300)


def test_libtiff_prints_nothing(tmp_path, capfd):
    NOISE.save(tmp_path / "a.tif", compression="tiff_lzw")
    (tmp_path / "b.tif").write_bytes((tmp_path / "a.tif").read_bytes().replace(b"\xc0", b"\xff"))
    with pytest.raises(ImageError):
        decode(tmp_path / "b.tif")
    assert capfd.readouterr().err  # here it does
    close_idle()  # so that the next one would print to the same place
    with pytest.raises(ImageError):
        decode_file(tmp_path / "b.tif")
    assert capfd.readouterr() == ("", "")


def segment(kind, data):
    return b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg_with(segment, size):
    data = encoded("JPEG")
    return data[:2] + segment * (size // len(segment)) + data[2:]


def encoded(format):
    stream = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(stream, format)
    return stream.getvalue()


def png_of_empty_chunks(size):
    header = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"abCd", b"") * (size // 12) + chunk(b"IDAT", zlib.compress(bytes(4 * 13)))
    return b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IEND", b"")


def grown_webp(size):
    body = encoded("WEBP")[8:] + b"junk" + struct.pack("<I", size) + bytes(size)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif_of_tiny_blocks(size):
    data = encoded("GIF")
    header = 13 + 3 * 2 ** ((data[10] & 7) + 1)
    return data[:header] + b"!\xfe" + b"\x01x" * (size // 2) + b"\0" + data[header:]


def jpeg_of_zeros(size):
    return encoded("JPEG")[:3] + bytes(size)


WAITS = "worker.decode = lambda path, size, max_pixels: time.sleep(20)"
STALLS = {  # how to make one of so many bytes; bytes that take a tenth of a second at least, and minutes
    "JPEG of EXIF segments": (
        lambda size: jpeg_with(segment(0xE1, b"Exif\0\0" + bytes(65000)), size),
        20 * MB,
        100 * MB,
    ),
    "JPEG of tiny EXIF segments": (lambda size: jpeg_with(segment(0xE1, b"Exif\0\0x"), size), MB, 20 * MB),
    "JPEG of tiny segments": (lambda size: jpeg_with(segment(0xFE, b""), size), MB, 20 * MB),
    "JPEG of zeros": (jpeg_of_zeros, MB, 380 * MB),
    "PPM with a long comment": (lambda size: b"P6\n#" + b"x" * size + b"\n4 4\n255\n" + bytes(48), MB, 50 * MB),
    "PNG of empty chunks": (png_of_empty_chunks, MB, 30 * MB),
    "GIF of tiny blocks": (gif_of_tiny_blocks, 4 * MB, 20 * MB),
}


@pytest.mark.parametrize("kind", STALLS)
def test_a_file_that_stalls_has_a_reason(kind, tmp_path, worker_that):
    worker_that("worker.SECONDS = 0.02")
    make, size, _ = STALLS[kind]
    (tmp_path / "hostile").write_bytes(make(size))
    assert outcome(tmp_path / "hostile") == "decoding it takes more than 10 s of processor time"
    assert idle == []


def test_a_file_that_cannot_be_waited_for_has_a_reason(photo, worker_that):
    worker_that(f"worker.PATIENCE = 0.1; {WAITS}")
    assert outcome(photo) == "it could not be read within 60 s"


def test_a_file_that_swells_has_a_reason_and_the_next_is_read(photo, worker_that):
    worker_that("worker.MEMORY = 180 * 2**20")  # of which it has more than half from the start
    hostile = photo.with_name("hostile")
    hostile.write_bytes(grown_webp(90 * MB))
    assert outcome(hostile) == "decoding it takes more than 1024 MB of memory"
    assert idle == []
    assert outcome(photo) == (200, 300)


MEASURED = """
import resource, sys
from pathlib import Path
from normscope.errors import ImageError
from normscope.images.decoding import close_idle, decode_file
try:
    print(decode_file(Path(sys.argv[1]), 64).shape)
except ImageError as error:
    print(error)
close_idle()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*STALLS, "WebP that was grown"])
def test_no_file_takes_more_than_11_seconds_and_a_gigabyte(kind, tmp_path):
    make, _, size = {**STALLS, "WebP that was grown": (grown_webp, MB, 380 * MB)}[kind]
    (tmp_path / "hostile").write_bytes(make(size))
    command = [sys.executable, "-c", MEASURED, tmp_path / "hostile"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result, used = done.stdout.splitlines()
    seconds, megabytes = map(float, used.split())
    print(f"{kind}: {size / MB:.0f} MB, {result}, {seconds:.1f} s, {megabytes:.0f} MB")
    assert seconds < 11
    assert megabytes < 1024


def test_a_file_above_the_limit_is_not_opened_at_all(tmp_path, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(jpeg_of_zeros(9))
    os.truncate(tmp_path / "a.jpg", 4 * 2**30)  # takes no room on the disk
    monkeypatch.setattr(decoding, "idle_or_new", lambda: pytest.fail("a worker"))
    assert outcome(tmp_path / "a.jpg") == f"{4 * 2**30} bytes are more than the limit of {MAX_BYTES}"


LARGE = {  # bytes that Pillow takes for a pixel, from 1/8 to 8
    "1": ("1", "PNG", {}),
    "P": ("P", "GIF", {}),
    "16-bit": ("I;16", "TIFF", {}),
    "32-bit": ("I", "TIFF", {}),
    "RGB": ("RGB", "BMP", {}),
    "RGBA": ("RGBA", "PNG", {"compress_level": 1}),
    "CMYK": ("CMYK", "JPEG", {"progressive": True}),
    "turned": ("RGB", "JPEG", {"exif": turned()}),
    "WebP": ("RGB", "WEBP", {"method": 0}),
    "lossless WebP": ("RGBA", "WEBP", {"method": 0, "lossless": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_images_up_to_the_limit_of_pixels_are_read(kind, tmp_path):
    mode, format, options = LARGE[kind]
    Image.new(mode, (10_000, 5_000)).save(tmp_path / "large", format, **options)
    assert outcome(tmp_path / "large") == ((10_000, 5_000) if kind == "turned" else (5_000, 10_000))


CRASH = """
import os, signal
seen, decode = [], worker.decode

def crash(path, size, max_pixels):
    seen.append(path)
    with path.with_name("log").open("a") as log:
        log.write(path.name + " ")
    if path.name == "crash" or (path.name == "spoilt" and len(seen) > 1):
        os.kill(os.getpid(), signal.SIGSEGV)
    if path.name == "stall":
        os.kill(os.getpid(), signal.SIGPROF)
    return decode(path, size, max_pixels=max_pixels)

worker.decode = crash
"""


def test_only_the_file_that_ended_a_worker_is_blamed_for_it(photo, worker_that):
    worker_that(CRASH)
    names = ["crash", "spoilt", "stall", "photo"]
    for name in names:
        photo.with_name(name).write_bytes(photo.read_bytes())
    outcomes = {name: outcome(photo.with_name(name)) for name in ("photo", "spoilt", "stall", "crash")}
    assert outcomes == {
        "photo": (200, 300),
        "spoilt": (200, 300),  # in a worker of its own, as an earlier file may have spoilt the first
        "stall": "decoding it takes more than 10 s of processor time",  # tried once: its time is its own
        "crash": "the decoder crashed on it (SIGSEGV)",
    }
    assert photo.with_name("log").read_text() == "photo spoilt spoilt stall crash "
    assert outcome(photo) == (200, 300)


def test_a_worker_that_died_meanwhile_is_replaced(photo):
    decode_in_worker(photo)
    process = idle[-1].process
    process.send_signal(signal.SIGINT)  # as by Ctrl-C, which the program may have survived
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert outcome(photo) == (200, 300)


def test_no_worker_can_be_started(photo, worker_that, monkeypatch):
    worker_that("sys.exit(3)")
    with pytest.raises(NormscopeError, match=r"no image can be decoded: .* does not start \(exit code 3\)"):
        decode_file(photo)


def test_control_c_in_the_middle_of_a_file(photo, worker_that, monkeypatch):
    """In a terminal the worker gets the signal, too; a program that is elsewhere then need not wait for it."""
    worker_that(WAITS)
    started = []
    original = decoding.Worker.exchange

    def exchange(self, request):
        started.append(self.process.pid)
        threading.Timer(0.5, os.kill, (self.process.pid, signal.SIGINT)).start()
        return original(self, request)

    monkeypatch.setattr(decoding.Worker, "exchange", exchange)
    with pytest.raises(KeyboardInterrupt):
        decode_file(photo)
    assert not alive(started[0])


def test_an_error_in_the_middle_of_a_file_leaves_no_worker(photo, worker_that, monkeypatch):
    worker_that(WAITS)
    process = []

    def interrupted(self, request):
        process.append(self.process)
        raise KeyboardInterrupt

    monkeypatch.setattr(decoding.Worker, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode_file(photo)
    assert process[0].returncode == -signal.SIGKILL
    assert idle == []


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_threads_share_the_workers(tmp_path):
    for side in range(20, 40):
        Image.new("L", (side, side), side).save(tmp_path / f"{side}.tif")
    paths = [tmp_path / f"{side}.tif" for side in range(20, 40)] * 5
    with ThreadPoolExecutor(8) as pool:
        pictures = list(pool.map(decode_file, paths))
    assert [f"{picture.pixels.max()}.tif" for picture in pictures] == [path.name for path in paths]
    assert len(idle) <= decoding.WORKERS


@pytest.mark.parametrize("files", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_is_left_behind(files, tmp_path, photo, worker_that):
    worker_that(CRASH)

    def count():
        tasks = Path("/proc/self/task")
        children = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
        return len(children), len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    names = ["photo.png"] * 18 + ["crash", "broken.tif"]
    photo.with_name("crash").write_bytes(photo.read_bytes())
    photo.with_name("broken.tif").write_bytes(b"II*\0")
    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(outcome, [tmp_path / names[index % 20] for index in range(files)]))) == files
    close_idle()
    assert count() == before


ENDS = """
import os, sys
from pathlib import Path
from normscope.images import decoding
decoding.decode_in_worker(Path(sys.argv[1]))
print(decoding.idle[0].process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), 9)"])
def test_a_worker_ends_with_the_program(end, photo):
    command = [sys.executable, "-c", ENDS.format(end=end), photo]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        pid = int(process.stdout.readline())
    for _ in range(600):
        if not alive(pid):
            return
        time.sleep(0.1)
    pytest.fail("it is still there")


FORKS = """
import os, sys
from pathlib import Path
from normscope.images.decoding import decode_in_worker, idle
path = Path(sys.argv[1])
first = decode_in_worker(path).shape
child = os.fork()
assert bool(idle) == bool(child)
assert all(decode_in_worker(path).shape == first for _ in range(20))
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_has_workers_of_its_own(photo):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", FORKS, photo], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_worker_does_not_import_torch(photo, worker_that):
    worker_that("assert not {'torch', 'sklearn', 'rich'} & set(sys.modules)")
    assert outcome(photo) == (200, 300)
