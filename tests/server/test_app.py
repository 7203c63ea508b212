import json

import numpy as np
import pytest

from normscope.cli import main
from normscope.images.notation import from_printable, printable

HOSTILE = [
    "../../x.png",
    "/etc/passwd",
    "a\x00b.png",
    "a\r\nSet-Cookie: b=c.png",
    "<script>alert(1)</script>",
    "=1+1.png",
    "x" * 3_000,
]


def files(*images, name="{}.png"):
    return [("files", (name.format(number), image)) for number, image in enumerate(images)]


def without_path(rows):
    return [{key: value for key, value in row.items() if key != "path"} for row in rows]


def test_rows_are_those_of_the_command_line(client, parts, explaining, capsys):
    paths = sorted(path for path in parts.rglob("*.png"))
    with pytest.raises(SystemExit) as left:
        main(["score", str(explaining), *map(str, paths), "--json"])
    assert left.value.code == 3
    expected = json.loads(capsys.readouterr().out)
    answer = client.post("/score", files=[("files", (str(path), path.read_bytes())) for path in paths])
    assert answer.status_code == 200
    assert answer.json() == expected
    assert [row["path"] for row in expected] == [str(path) for path in paths]
    assert [row["error"] for row in expected].count(None) == len(paths) - 1


def test_a_name_of_ten_kilobytes_is_refused(client, good):
    answer = client.post("/score", files=[("files", ("x" * 10_000, good[0]))])
    assert 400 <= answer.status_code < 500
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_and_no_path(client, good, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    boundary, disposition = b"xyz", b'form-data; name="files"; filename="' + name.encode() + b'"'
    body = b"--xyz\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + good[0] + b"\r\n--xyz--\r\n"
    answer = client.post(
        "/score", content=body, headers={"content-type": f"multipart/form-data; boundary={boundary.decode()}"}
    )
    (row,) = answer.json()
    assert row["error"] is None
    assert row["path"].isprintable()
    assert "set-cookie" not in answer.headers
    if "\n" not in name:  # with which its header ends
        assert row["path"] == printable(name)
        assert str(from_printable(row["path"])) == name
    assert list(tmp_path.iterdir()) == []


def test_heat_maps_on_request(client, bad):
    (plain,) = client.post("/score", files=files(bad[0])).json()
    assert "heatmap" not in plain
    row, broken = client.post("/score?heatmaps=true", files=files(bad[0], b"junk")).json()
    assert row["heatmap"].startswith("data:image/png;base64,")
    assert row["picture"].startswith("data:image/webp;base64,")
    assert row["score"] == pytest.approx(plain["score"], rel=1e-5)
    assert broken["heatmap"] is broken["picture"] is None
    assert "not a readable" in broken["error"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({"files": [("files", ("a.png", b"")), ("other", ("b", b"x"))]}, 200, "the file is empty"),
        ({"files": [("file", ("a.png", b"x"))]}, 400, "nothing for files"),
        ({"files": [("files", (None, "text"))]}, 400, "text for files"),
        ({"json": {}}, 415, "application/json; send multipart/form-data"),
        ({}, 415, "of no type"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "Missing boundary"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=b"}}, 400, "could not be read"),
        ({"params": {"model": "<x>"}, "files": [("files", ("a", b"x"))]}, 404, "no model <x>; choose from parts"),
        ({"params": {"heatmaps": "perhaps"}, "files": [("files", ("a", b"x"))]}, 422, "heatmaps"),
    ],
)
def test_a_request_that_is_not_right_is_told_what_is(client, options, status, said):
    answer = client.post("/score", **options)
    assert answer.status_code == status
    assert said in (answer.json()[0] if status == 200 else answer.json())["error"]


def test_a_form_that_is_cut_off_loses_no_file_silently(client, good):
    disposition = b'Content-Disposition: form-data; name="files"; filename="{}"\r\n\r\n'
    body = b"".join(b"--b\r\n" + disposition + image + b"\r\n" for image in good[:2])
    head = {"content-type": "multipart/form-data; boundary=b"}
    assert len(client.post("/score", content=body + b"--b--\r\n", headers=head).json()) == 2
    answer = client.post("/score", content=body, headers=head)
    assert answer.status_code == 400
    assert "ends before its last boundary" in answer.json()["error"]


CHARSETS = ["utf-8", "utf-7", "idna", "undefined", "hex", "punycode", "utf-16", "nonsense"]
HEAD = b'Content-Disposition: form-data; name="files"; filename="a.png"\r\n'


def some_changed(form, rng):
    data = np.frombuffer(form, np.uint8).copy()
    data[rng.integers(0, 90, rng.integers(1, 6))] = rng.integers(256)
    return data.tobytes()


MALFORMED = {  # a form and a generator → something that may be none
    "bytes changed": some_changed,
    "cut off": lambda form, rng: form[: rng.integers(1, len(form))],
    "changed and cut off": lambda form, rng: some_changed(form, rng)[: rng.integers(1, len(form))],
    "noise": lambda form, rng: rng.bytes(int(rng.integers(1, 3000))),
    "noise in a form": lambda form, rng: b"--b\r\n" + rng.bytes(int(rng.integers(1, 3000))) + b"\r\n--b--\r\n",
    "line ends": lambda form, rng: form.replace(b"\r\n", [b"\n", b"\r", b"\r\r\n", b""][rng.integers(4)]),
    "many heads": lambda form, rng: form.replace(HEAD, HEAD * int(rng.integers(2, 300))),
    "a long head": lambda form, rng: form.replace(b"a.png", b"a" * int(rng.integers(10**3, 10**5))),
    "many parts": lambda form, rng: form.replace(b"--b--\r\n", b"--b\r\n\r\n" * int(rng.integers(2, 3000))),
    "boundaries": lambda form, rng: form.replace(b"--b", b"--b" * int(rng.integers(2, 9))),
}


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.soak)])
def test_malformed_forms_are_refused_and_nothing_worse(client, good, tally, count):
    rng, found = np.random.default_rng(0), []
    whole = b"--b\r\n" + HEAD + b"\r\n" + good[0][:60] + b"\r\n--b--\r\n"
    for number in range(count):
        content = list(MALFORMED.values())[number % len(MALFORMED)](whole, rng)
        charset = CHARSETS[int(rng.integers(len(CHARSETS)))]
        head = {"content-type": f"multipart/form-data; boundary=b; charset={charset}"}
        answer = client.post("/score", content=content, headers=head)
        rows = answer.json()
        well = bool(rows) and all(row["error"] for row in rows) if answer.status_code == 200 else set(rows) == {"error"}
        found.append(answer.status_code if well else 0)
    lost = [one for one in found if not (one == 200 or 400 <= one < 500)]
    # Some are forms all the same: a byte of the file's name changed.
    tally("server: malformed forms, 4xx and never 5xx", count, len(lost), forms_all_the_same=found.count(200))


def test_several_models_by_name(started, model, good):
    client = started(models={"first": model.at(0.5), "second": model})
    default, first, second = (
        client.post("/score", params=params, files=files(*good)).json()
        for params in ({}, {"model": "first"}, {"model": "second"})
    )
    assert default == first
    assert [row["score"] for row in first] == [row["score"] for row in second]
    assert sum(row["anomalous"] for row in first) > sum(row["anomalous"] for row in second)
    names = [one["name"] for one in client.get("/models").json()["models"]]
    assert names == ["first", "second"]


def test_models_are_described_in_plain_words(client, model):
    found = client.get("/models").json()
    (one,) = found["models"]
    assert "60 of 80 normal images" in one["words"]["Learnt from"]
    assert one["promise"] == model.calibration.promise
    assert one["threshold"] == model.calibration.threshold
    assert one["card"]["method"] == "surprisal"
    assert found["limits"] == {"body": 20_000_000, "pixels": 50_000_000, "seconds": 30, "queued": 64, "history": 100}


def test_history_is_the_latest_first_and_bounded(started, good):
    from normscope.server.limits import Limits

    client = started(Limits(history=3))
    client.post("/score", files=files(*good[:2], name="old-{}"))
    client.post("/score?heatmaps=true", files=files(*good[:2], name="new-{}"))
    found = client.get("/history").json()
    assert [one["path"] for one in found] == ["new-1", "new-0", "old-1"]
    assert [("picture" in one) for one in found] == [True, True, False]
    assert found[0]["model"] == "parts"


def test_no_history_where_none_is_wanted(started, good):
    from normscope.server.limits import Limits

    client = started(Limits(history=0))
    client.post("/score", files=files(good[0]))
    assert client.get("/history").json() == []


def test_metrics_count(client, good, bad):
    client.post("/score", files=files(*good, *bad, b"junk"))
    client.get("/nowhere/at/all")
    text = client.get("/metrics").text
    assert 'normscope_images_total{model="parts",outcome="error"} 1' in text
    assert 'normscope_images_total{model="parts",outcome="anomalous"} ' in text
    assert 'normscope_requests_total{path="/score",status="200"} 1' in text
    assert 'normscope_requests_total{path="other",status="404"} 1' in text
    assert "normscope_batched_images_total 13.0" in text
    assert "normscope_ready 1.0" in text
    assert 'normscope_request_seconds_bucket{le="+Inf"} 2' in text
    assert "nowhere" not in text


def test_drift_is_followed_and_told_by_model(started, model, good, bad):
    client = started(models={"moving": model, "quiet": model.at(0.05)})
    assert [(one["model"], one["images"]) for one in client.get("/drift").json()] == [("moving", 0), ("quiet", 0)]
    client.post("/score", params={"model": "quiet"}, files=files(good[0], b"junk"))
    for _ in range(12):  # many that are flagged: normal has moved, or most images are anomalous
        client.post("/score", params={"model": "moving"}, files=files(*bad))
    moving, quiet = client.get("/drift").json()
    assert (moving["images"], quiet["images"]) == (48, 1)
    assert moving["message"].startswith("normal has moved, or most images are anomalous")
    assert moving["flagged"] > 0.9
    assert quiet["message"] is None
    text = client.get("/metrics").text
    assert 'normscope_normal_moved{model="moving"} 1.0' in text
    assert 'normscope_normal_moved{model="quiet"} 0.0' in text


def test_drift_is_that_of_the_same_scores_on_the_command_line(client, model, good, bad):
    from normscope.drift import begin, carried_on

    scores = [row["score"] for row in client.post("/score", files=files(*good, *bad)).json()]
    drift, expected = client.app.state.service.batcher.drifts["parts"], carried_on(begin(model.calibration), scores)
    assert (drift.every.known == expected.every.known).all()
    assert drift.unflagged.capital == pytest.approx(expected.unflagged.capital)


@pytest.mark.parametrize("path", ["/", "/page.js", "/models", "/nowhere", "/v2/health/live", "/openapi.json"])
def test_every_answer_has_security_headers(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_page_has_no_inline_script_or_style_and_asks_nobody_else(client):
    html, css, script = (client.get(path).text for path in ("/", "/page.css", "/page.js"))
    assert html.count("<script") == html.count('<script src="/page.js"') == 1
    assert "<style" not in html
    assert not [word for word in (" style=", " onclick=", "http://", "https://") if word in html + css + script]


def test_no_other_origin_is_let_in(client):
    origin = {"origin": "https://elsewhere.example"}
    headers = client.get("/models", headers=origin).headers
    assert not [name for name in headers if name.startswith("access-control")]
    preflight = client.options("/score", headers={**origin, "access-control-request-method": "POST"})
    assert preflight.status_code == 405


def test_a_failure_inside_is_a_500_with_an_error_and_no_detail(client, monkeypatch, good, caplog):
    monkeypatch.setattr(client.app.state.service, "rows", None)
    answer = client.post("/score", files=files(good[0]))
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed, and wrote why to its log"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "NoneType" in caplog.text


def test_the_schema_is_served_and_no_page_that_loads_scripts_from_elsewhere(client):
    schema = client.get("/openapi.json").json()
    assert {"/score", "/history", "/models", "/drift", "/metrics", "/v2/models/{name}/infer"} <= schema["paths"].keys()
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
