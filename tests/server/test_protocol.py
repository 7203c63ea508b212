"""The Open Inference Protocol."""

import base64

import numpy as np
import pytest

URL = "/v2/models/parts/infer"


def encoded(*images):
    data = [base64.b64encode(image).decode() for image in images]
    return {"name": "images", "datatype": "BYTES", "shape": [len(data)], "data": data}


def pixels(array, shape=None):
    return {"name": "images", "datatype": "UINT8", "shape": shape or list(array.shape), "data": array.tolist()}


def values(answer):
    assert answer.status_code == 200, answer.text
    return {one["name"]: one["data"] for one in answer.json()["outputs"]}


def test_health_and_metadata(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2").json()["name"] == "normscope"
    found = client.get("/v2/models/parts").json()
    assert found["name"] == "parts"
    assert [one["datatype"] for one in found["inputs"]] == ["BYTES", "UINT8"]
    assert [one["name"] for one in found["outputs"]] == ["score", "p_value", "p_estimate", "anomalous", "heatmap"]
    assert client.get("/v2/models/parts/ready").json() == {"ready": True}
    assert client.get("/v2/models/none").status_code == client.get("/v2/models/none/ready").status_code == 404


def test_bytes_are_scored_as_files_are(client, good, bad):
    images = [*good, *bad]
    rows = client.post("/score", files=[("files", ("a", image)) for image in images]).json()
    answer = client.post(URL, json={"id": "seven", "inputs": [encoded(*images)]})
    assert answer.json()["model_name"] == "parts"
    assert answer.json()["id"] == "seven"
    found = values(answer)
    assert found.keys() == {"score", "p_value", "p_estimate", "anomalous"}
    for name, column in found.items():
        assert column == [row[name] for row in rows]


def test_a_tensor_is_scored_as_the_image_that_it_is(client, model, png):
    images = np.random.default_rng(5).integers(0, 256, (3, 48, 64), np.uint8)
    colour = np.repeat(images[..., None], 3, axis=3)
    nested, flat = pixels(colour), pixels(colour.ravel(), list(colour.shape))
    expected = values(client.post(URL, json={"inputs": [encoded(*map(png, images))]}))
    assert values(client.post(URL, json={"inputs": [nested]})) == expected
    assert values(client.post(URL, json={"inputs": [flat]})) == expected


def test_outputs_are_those_asked_for(client, bad):
    wanted = [{"name": "heatmap"}, {"name": "score"}]
    answer = client.post(URL, json={"inputs": [encoded(*bad)], "outputs": wanted})
    heat, score = answer.json()["outputs"]
    assert (heat["name"], score["name"]) == ("heatmap", "score")
    assert heat["shape"][0] == 4
    assert len(heat["shape"]) == 3
    assert len(heat["data"]) == np.prod(heat["shape"])
    assert max(heat["data"]) > 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": []}, "0 inputs"),
        ({"inputs": [encoded(b"x"), encoded(b"x")]}, "2 inputs"),
        ({"inputs": [encoded(b"junk")]}, "image 0: not a readable"),
        ({"inputs": [encoded()]}, "not of 1 to 1000 images"),
        ({"inputs": [{**encoded(b"x"), "shape": []}]}, "not of 1 to 1000 images"),
        ({"inputs": [{**encoded(b"x"), "shape": [2]}]}, "do not have the shape [2]"),
        ({"inputs": [{**encoded(b"x"), "data": ["!"]}]}, "image 0 is not base64"),
        ({"inputs": [{**encoded(b"x"), "data": ["ü"]}]}, "image 0 is not base64"),
        ({"inputs": [{**encoded(b"x"), "data": [7]}]}, "image 0 is not base64"),
        ({"inputs": [pixels(np.zeros(12, int), [1, 2, 2, 4])]}, "give [n, h, w, 3]"),
        ({"inputs": [pixels(np.zeros(12, int), [1, -2, -2, 3])]}, "give [n, h, w, 3]"),
        ({"inputs": [pixels(np.zeros(9, int), [1, 2, 2, 3])]}, "not 12 integers"),
        ({"inputs": [pixels(np.full(12, 256), [1, 2, 2, 3])]}, "from 0 to 255"),
        ({"inputs": [pixels(np.full(12, 0.5), [1, 2, 2, 3])]}, "from 0 to 255"),
        ({"inputs": [{**pixels(np.zeros(12, int), [1, 2, 2, 3]), "data": [[1], [1, 2]]}]}, "not 12 integers"),
        ({"inputs": [{**pixels(np.zeros(12, int), [1, 2, 2, 3]), "data": [10**30] * 12}]}, "not 12 integers"),
        ({"inputs": [pixels(np.zeros(3, int), [1, 10**6, 10**6, 3])]}, "--max-megapixels"),
        ({"inputs": [encoded(b"x")], "outputs": [{"name": "speed"}]}, "no output speed; choose from score"),
    ],
)
def test_what_is_wrong_is_said(client, change, said):
    answer = client.post(URL, json=change)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b"null", b'{"inputs": [{"datatype": "FP32"}]}', b"[" * 5000]
)
def test_what_is_no_request_is_refused(client, body):
    answer = client.post(URL, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


def test_text_that_is_no_unicode_is_refused_or_escaped(client, good):
    image = base64.b64encode(good[0])
    body = (
        b'{"id": "\\ud800", "inputs": [{"name": "\\udfff", "datatype": "BYTES", "shape": [1], "data": ["'
        + image
        + b'"]}]}'
    )
    answer = client.post(URL, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 422)
    answer = client.post(URL, content=body.replace(b"[1]", b"[2]"), headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
