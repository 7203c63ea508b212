import errno
import os
import threading
import time

import pytest

from normscope.server.limits import Limits


def files(*images):
    return [("files", ("a.png", image)) for image in images]


class Slow:
    """A model that scores when it is told to."""

    def __init__(self, model) -> None:
        self.model, self.go_on = model, threading.Event()
        self.method, self.calibration = model.method, model.calibration

    def scored(self, paths, **options):
        self.go_on.wait(30)
        return self.model.scored(paths, **options)


@pytest.mark.parametrize("path", ["/score", "/v2/models/parts/infer"])
def test_a_body_that_is_too_long_is_refused_with_and_without_its_length(started, path):
    client = started(Limits(body=1000))

    def parts():
        for _ in range(11):
            yield bytes(100)

    head = {"content-type": "multipart/form-data; boundary=b" if path == "/score" else "application/json"}
    for body in (bytes(1001), parts()):
        answer = client.post(path, content=body, headers=head)
        assert answer.status_code == 413
        assert "more than 0.001 MB" in answer.json()["error"]
        assert "--max-body-mb or NORMSCOPE_MAX_BODY_MB" in answer.json()["error"]


def test_a_body_within_the_limit_is_taken(started, good):
    client = started(Limits(body=len(good[0]) + 500))
    assert client.post("/score", files=files(good[0])).status_code == 200


@pytest.mark.parametrize("pixels", [3071, 3072])
def test_an_image_with_too_many_pixels_is_a_row_with_an_error(started, good, pixels):
    client = started(Limits(pixels=pixels))
    (row,) = client.post("/score", files=files(good[0])).json()
    if pixels == 3072:  # 48 x 64
        assert row["error"] is None
    else:
        assert "64 x 48 = 3072 pixels are more than the limit of 3071" in row["error"]
        assert "--max-megapixels or NORMSCOPE_MAX_MEGAPIXELS" in row["error"]


def test_an_answer_that_takes_too_long_is_a_503_and_is_not_scored_later(started, model, good):
    slow = Slow(model)
    client = started(Limits(seconds=0.1), models={"slow": slow})
    for _ in range(2):  # the first is being scored, the second waits
        answer = client.post("/score", files=files(good[0]))
        assert answer.status_code == 503
        assert "within 0.1 s" in answer.json()["error"]
        assert "--max-seconds" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) > 0
    batcher = client.app.state.service.batcher
    slow.go_on.set()
    assert client.post("/score", files=files(good[0])).status_code in (200, 503)
    assert batcher.images < 3


def test_a_full_queue_is_a_503_and_nothing_in_it_is_lost(started, model, good, until):
    slow, answers = Slow(model), []
    client = started(Limits(queued=2), models={"slow": slow})
    batcher = client.app.state.service.batcher

    def send():
        answers.append(client.post("/score", files=files(good[0])).status_code)

    threads = [threading.Thread(target=send) for _ in range(3)]
    threads[0].start()
    until(lambda: batcher.images == 1)
    for thread in threads[1:]:
        thread.start()
    until(lambda: len(batcher.waiting) == 2)
    refused = client.post("/score", files=files(good[0]))
    assert refused.status_code == 503
    assert "2 requests are waiting already" in refused.json()["error"]
    assert "--max-queued" in refused.json()["error"]
    assert refused.headers["retry-after"] == "2"
    unread = client.post("/score", content=b"no form at all", headers={"content-type": "multipart/form-data"})
    assert unread.status_code == 503, "a body that nobody can take is not read"
    slow.go_on.set()
    for thread in threads:
        thread.join()
    assert answers == [200] * 3
    assert batcher.batches == 2  # the two that waited were scored together


def test_bodies_together_have_bounded_memory_and_the_earliest_finds_room(started, good):
    client = started(Limits(body=10_000))
    room = client.app.state.service.room
    assert room.most == 250_000
    pixels = {"name": "images", "datatype": "UINT8", "shape": [1, 30, 40, 3], "data": [0] * 3600}
    for taken, form, json in ((0, 200, 200), (200_000, 200, 503), (249_000, 503, 503)):
        room.taken = {"another": taken}
        answers = [
            client.post("/score", files=files(good[0])),
            client.post("/v2/models/parts/infer", json={"inputs": [pixels]}),
        ]
        assert [answer.status_code for answer in answers] == [form, json]
        assert room.taken == {"another": taken}, "what was taken is given back"
        for answer in answers:
            if answer.status_code == 503:
                assert "fill the memory for bodies" in answer.json()["error"]
                assert answer.headers["retry-after"] == "2"
    room.taken, room.most = {}, 10
    assert client.post("/score", files=files(good[0])).status_code == 200


FULL = {"in a form": ("tempfile.SpooledTemporaryFile.rollover", b"x"), "to a file": ("shutil.copyfileobj", b"")}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("call", "more"), FULL.values(), ids=FULL)
def test_a_disk_that_fails_is_a_503_that_may_pass_and_leaves_nothing(
    client, good, monkeypatch, tmp_path, call, more, number
):
    """A file of more than a megabyte goes to the disk while the form is read, each image before it is scored."""

    def fail(*given):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        answer = client.post("/score", files=files(good[0] + more * 2_000_000))
    assert answer.status_code == 503
    assert os.strerror(number) in answer.json()["error"]
    assert answer.headers["retry-after"]
    assert list(tmp_path.iterdir()) == []
    assert client.post("/score", files=files(good[0])).json()[0]["error"] is None


def test_a_request_with_too_many_files_is_refused(client):
    answer = client.post("/score", files=files(*[b"x"] * 1001))
    assert answer.status_code == 400
    assert "Maximum number of files is 1000" in answer.json()["error"]


def test_nothing_is_taken_before_the_models_are_there(model, good, until):
    from starlette.testclient import TestClient

    from normscope.server.app import make_app

    loading = threading.Event()
    app = make_app(lambda: loading.wait(30) and {"parts": model})
    with TestClient(app) as client:
        assert client.get("/v2/health/live").status_code == 200
        assert client.get("/v2/health/ready").status_code == 503
        for answer in (
            client.post("/score", files=files(good[0])),
            client.get("/models"),
            client.get("/v2/models/parts"),
        ):
            assert answer.status_code == 503
            assert "being loaded" in answer.json()["error"]
            assert answer.headers["retry-after"]
        loading.set()
        until(lambda: client.get("/v2/health/ready").status_code == 200)
        assert client.post("/score", files=files(good[0])).status_code == 200


def test_a_server_that_stops_is_not_ready_and_finishes_what_it_has(started, model, good, until):
    slow, answers = Slow(model), []
    client = started(models={"slow": slow})
    service = client.app.state.service
    thread = threading.Thread(target=lambda: answers.append(client.post("/score", files=files(good[0]))))
    thread.start()
    until(lambda: service.batcher.images == 1)
    service.drain()
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").status_code == 503
    refused = client.post("/score", files=files(good[0]))
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    assert not service.drained
    slow.go_on.set()
    thread.join()
    assert answers[0].status_code == 200
    time.sleep(0.6)
    assert service.drained
