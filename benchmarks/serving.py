"""Latency and throughput of `normscope serve`, over loopback; lines go to results/serving.jsonl.

`python -m benchmarks.serving --model FILE --image FILE` posts one image at a time to a server of its own: first by one
client, one request after the other, which gives the latency; then by 1, 4, 16 and 64 clients at once, which gives the
throughput. Every number of clients has so many requests and at most so many seconds.
"""

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.line import append

PART = 'Content-Disposition: form-data; name="files"; filename="{}"\r\n\r\n'
PATIENCE = 60  # seconds for a server to be ready, and for an answer


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """The address, host:port, of a server that is ready."""
    command = [sys.executable, "-m", "normscope", "serve", str(model), "--port", "0", "--json", "--max-queued", "256"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            address = urlsplit(json.loads(process.stdout.readline())["url"]).netloc
            began = time.monotonic()
            while answer(address, "GET", "/v2/health/ready") != 200:
                assert time.monotonic() - began < PATIENCE, "the server is not ready"
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()


def answer(address: str, verb: str, path: str) -> int:
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection:
        connection.request(verb, path)
        with connection.getresponse() as response:
            return response.status


def form(image: Path) -> tuple[bytes, dict[str, str]]:
    """Body and headers."""
    body = b"--b\r\n" + PART.format(image.name).encode() + image.read_bytes() + b"\r\n--b--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=b"}


def posted(address: str, image: Path, clients: int, requests: int, seconds: float) -> dict:
    """What so many clients got: the seconds of each answer, how many of each status, and the seconds of all."""
    body, headers = form(image)
    numbers, taken, statuses, end = count(), list[float](), Counter[int](), time.monotonic() + seconds

    def client() -> None:
        connection = http.client.HTTPConnection(address, timeout=PATIENCE)
        while next(numbers) < requests and time.monotonic() < end:
            began = time.perf_counter()
            connection.request("POST", "/score", body, headers)
            response = connection.getresponse()
            response.read()
            taken.append(time.perf_counter() - began)
            statuses[response.status] += 1
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"seconds": time.perf_counter() - began, "latencies": taken, "statuses": dict(statuses)}


def measured(address: str, image: Path, clients: int, requests: int, seconds: float) -> dict:
    """Answers a second, and how many seconds half, and 99 of 100, of them took at most."""
    found = posted(address, image, clients, requests, seconds)
    return {
        "clients": clients,
        "requests": len(found["latencies"]),
        "statuses": {str(status): number for status, number in found["statuses"].items()},
        "per_second": found["statuses"].get(200, 0) / found["seconds"],
        "p50": float(np.quantile(found["latencies"], 0.5)),
        "p99": float(np.quantile(found["latencies"], 0.99)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/serving.jsonl"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--clients", type=json.loads, default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    from normscope.export.exported import open_model

    model = open_model(given.model)
    with serving(given.model) as address:
        posted(address, given.image, 1, 3, given.seconds)  # warms up
        for clients in given.clients:
            line = {"what": "serving", "method": model.card["method"], "size": list(model.size)}
            append(given.out, {**line, **measured(address, given.image, clients, given.requests, given.seconds)})


if __name__ == "__main__":
    main()
