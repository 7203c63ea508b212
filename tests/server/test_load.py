"""A server under load, as a process of its own: nothing is lost, scores are right, and memory stays where it is."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest

from normscope.cli import main

EACH = 10  # images in a request
MB = 2**20
FORM = "multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> Path:
    """A model that scores in no time, so that the server has more to do than the model."""
    from normscope import Detector

    path = tmp_path_factory.mktemp("quick") / "model.safetensors"
    images = np.random.default_rng(0).integers(0, 256, (40, 48, 64), dtype=np.uint8)
    Detector("pca", false_alarm_rate=0.1).fit(images).save(path)
    return path


@pytest.fixture
def serving(quick, until):
    """`serving(*options)` → the process and its address, ready."""
    processes = []

    def start(*options):
        command = [sys.executable, "-m", "normscope", "serve", str(quick), "--port", "0", "--json", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        url = json.loads(processes[-1].stdout.readline())["url"]
        until(lambda: httpx.get(f"{url}/v2/health/ready", timeout=60).status_code == 200, 120)
        return processes[-1], url

    yield start
    for process in processes:
        with process:
            process.kill()


def memory(process, which="VmRSS"):
    """In bytes; VmHWM is the peak since `/proc/PID/clear_refs` was written to."""
    found = re.search(rf"{which}:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return 1024 * int(found[1])


class Crowd:
    """Clients that send images until each has had an answer for `each` of them; who is told to come back does.

    An answer that is neither rows nor a hint when to come back, or none at all, leaves its images without a score.
    """

    def __init__(self, url, paths, clients, each) -> None:
        self.url, self.paths, self.clients, self.each = url, paths, clients, each
        self.data = [path.read_bytes() for path in paths]
        self.scores, self.answered, self.refused, self.hints, self.wrong = {}, 0, 0, set(), []

    async def one(self, client, number):
        for start in range(0, self.each, EACH):
            names = [f"{number}-{place}" for place in range(start, start + EACH)]
            files = [("files", (name, self.data[int(name.split("-")[1]) % len(self.data)])) for name in names]
            try:
                answer = await self.answer(client, files)
                self.scores |= {row["path"]: row["score"] for row in answer.raise_for_status().json()}
            except Exception as error:  # whatever it is, its images are counted as lost
                self.wrong.append(f"{type(error).__name__}: {error}")
            self.answered += EACH

    async def answer(self, client, files):
        while (answer := await client.post(f"{self.url}/score", files=files)).status_code == 503:
            self.refused += 1
            self.hints.add(answer.headers["retry-after"])
            await asyncio.sleep(float(answer.headers["retry-after"]))
        return answer

    async def all(self, watch):
        limits = httpx.Limits(max_connections=self.clients)
        async with httpx.AsyncClient(timeout=600, limits=limits) as client:
            watching = asyncio.create_task(watch(self))
            await asyncio.gather(*(self.one(client, number) for number in range(self.clients)))
            watching.cancel()

    def lost(self, expected):
        """Names of images without a score, or with another one than the command line's."""
        places = [(number, place) for number in range(self.clients) for place in range(self.each)]
        wanted = {f"{number}-{place}": expected[place % len(expected)] for number, place in places}
        return [name for name, score in wanted.items() if self.scores.get(name) != pytest.approx(score, rel=1e-5)]


def scores_of_the_command_line(model, paths, capsys):
    with pytest.raises(SystemExit):
        main(["score", str(model), *map(str, paths), "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["path"] for row in rows] == [str(path) for path in paths]
    assert all(np.isfinite(row["score"]) for row in rows)
    return [row["score"] for row in rows]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells how much memory it took")
@pytest.mark.parametrize(("clients", "each"), [(16, 10), pytest.param(64, 1_000, marks=pytest.mark.soak)])
def test_a_crowd_loses_nothing_and_leaves_memory_flat(serving, quick, parts, tally, clients, each, capsys):
    paths = sorted((parts / "good").iterdir()) + sorted((parts / "bad").iterdir())
    expected = scores_of_the_command_line(quick, paths, capsys)
    process, url = serving("--max-queued", "24", "--history", "10")
    crowd, seen = Crowd(url, paths, clients, each), []

    async def watch(crowd):
        while True:
            seen.append((crowd.answered, memory(process)))
            await asyncio.sleep(0.5)

    asyncio.run(crowd.all(watch))
    lost, more = len(crowd.lost(expected)), {}
    print(*crowd.wrong, sep="\n")
    if each > 100:
        warm = [(images / 1000, used / MB) for images, used in seen if images > 0.2 * clients * each]
        slope = float(np.polyfit(*np.array(warm).T, 1)[0])
        more = {"megabytes_per_1000": round(slope, 3), "told_to_come_back": crowd.refused}
        lost += slope >= 1
        assert crowd.refused, "there was no overload"
        assert crowd.hints == {"2"}
    tally(f"server: images of {clients} clients at once", clients * each, lost, **more)


def test_a_crowd_would_notice_a_loss(quick, parts):
    """At a server that answers a tenth of all requests with 500, scores an image wrongly, and breaks a connection."""
    paths, requests = sorted((parts / "good").iterdir()), []

    def answer(request):
        requests.append(request)
        if len(requests) == 3:
            raise httpx.ReadError("the connection broke")
        if len(requests) % 10 == 0:
            return httpx.Response(500, json={"error": "it failed"})
        names = re.findall(rb'filename="([^"]+)"', request.read())
        rows = [{"path": name.decode(), "score": 1.0} for name in names]
        rows[0]["score"] += len(requests) == 4
        return httpx.Response(200, json=rows)

    async def send(crowd):
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            await asyncio.gather(*(crowd.one(client, number) for number in range(4)))

    crowd = Crowd("http://server", paths, clients=4, each=50)
    asyncio.run(send(crowd))
    assert len(requests) == 20
    assert len(crowd.lost([1.0])) == 2 * EACH + EACH + 1


@pytest.mark.soak
def test_huge_bodies_leave_memory_flat(serving, tally):
    """As a form of one huge file, with and without its length."""
    process, url = serving()
    httpx.post(f"{url}/score", files=[("files", ("a", bytes(10**6)))], timeout=60)  # what the first request loads
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    before, lost, slowest = memory(process, "VmHWM"), 0, 0.0

    def body():
        yield PART
        for _ in range(100):
            yield bytes(10**6)

    for number in range(40):
        length = {"content-length": str(10**8 + len(PART))} if number % 2 else {}
        began = time.monotonic()
        lost += status(f"{url}/score", content=body(), headers={"content-type": FORM, **length}) != 413
        slowest = max(slowest, time.monotonic() - began)
    more = {"slowest": round(slowest, 2), "megabytes_at_most": round((memory(process, "VmHWM") - before) / MB, 1)}
    lost += slowest > 5
    lost += more["megabytes_at_most"] > 50
    tally("server: bodies of 100 MB, 413 within 5 s and memory flat", 40, lost, **more)


def status(url, **request):
    """Of the answer; None if there is none."""
    try:
        return httpx.post(url, timeout=60, **request).status_code
    except httpx.HTTPError:
        return None


@pytest.mark.soak
def test_told_to_end_under_load_it_answers_what_it_has(serving, parts, tally):
    """Six servers; each answers every request that it took, with rows or a 503 that says when to come back."""
    images, lost, answered = [path.read_bytes() for path in sorted((parts / "good").iterdir())], 0, 0

    async def crowd(process, url):
        async with httpx.AsyncClient(timeout=60) as client:
            send = [client.post(f"{url}/score", files=[("files", ("a", one)) for one in images]) for _ in range(32)]
            tasks = [asyncio.create_task(one) for one in send]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*tasks, return_exceptions=True)

    for _ in range(6):
        process, url = serving()
        answers = asyncio.run(crowd(process, url))
        assert process.wait(60) == 143
        taken = [one for one in answers if not isinstance(one, httpx.ConnectError)]  # others came too late
        answered += len(taken)
        lost += sum(isinstance(one, Exception) or not well_answered(one, len(images)) for one in taken)
    tally("server: requests in flight at SIGTERM", answered, lost)


def well_answered(answer, count):
    if answer.status_code == 503:
        return "retry-after" in answer.headers
    return answer.status_code == 200 and [row["error"] for row in answer.json()] == [None] * count


@pytest.mark.soak
def test_nothing_that_fits_the_schema_makes_the_server_fail(serving, tally):
    """Schemathesis has an environment of its own: `make soak` makes it."""
    program = os.environ.get("SCHEMATHESIS") or shutil.which("schemathesis")
    if program is None:
        pytest.skip("schemathesis is not installed")
    _, url = serving()
    command = [program, "run", f"{url}/openapi.json", "--checks", "not_a_server_error", "--max-examples", "100"]
    done = subprocess.run([*command, "--no-color"], capture_output=True, text=True)
    print(done.stdout[-5000:])
    found = re.search(r"(\d[\d,]*) generated", done.stdout)
    assert found, done.stderr[-3000:]
    failed = re.search(r"(\d[\d,]*) found", done.stdout[found.start() :])
    lost = int(failed[1].replace(",", "")) if failed else int(done.returncode != 0)
    tally("server: requests made from its schema, no 5xx", int(found[1].replace(",", "")), lost)
