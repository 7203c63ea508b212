"""The bearer token."""

import hmac

import pytest

TOKEN = "correct-horse"


@pytest.fixture
def client(started):
    return started(token=TOKEN)


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/v2/health/live", "/v2/health/ready"])
def test_the_page_and_health_are_open(client, path):
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("given", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer ü"])
def test_without_the_token_nothing_is_told_or_scored(client, given, good):
    headers = {"authorization": given.encode()} if given else {}
    for method, path in [
        ("GET", "/models"),
        ("GET", "/history"),
        ("GET", "/metrics"),
        ("GET", "/drift"),
        ("GET", "/openapi.json"),
    ]:
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["error"]
    answer = client.post("/score", headers=headers, files=[("files", ("a.png", good[0]))])
    assert answer.status_code == 401
    assert client.app.state.service.batcher.images == 0


def test_with_the_token_all_is_as_usual(client, good):
    client.headers["authorization"] = f"Bearer {TOKEN}"
    assert client.get("/models").status_code == 200
    assert len(client.post("/score", files=[("files", ("a.png", good[0]))]).json()) == 1


def test_the_token_is_compared_in_constant_time(client, monkeypatch):
    """So that how long a refusal takes does not tell how much of a guess is right."""
    compared, compare = [], hmac.compare_digest

    def watched(one, other):
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    for given, status in (("correct-horsf", 401), ("x", 401), (TOKEN, 200)):
        assert client.get("/models", headers={"authorization": f"Bearer {given}"}).status_code == status
        assert compared.pop() == (given.encode(), TOKEN.encode())
