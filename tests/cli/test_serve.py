"""What is said before anything is served."""

import shutil

import pytest


def test_a_model_that_is_not_there(refused):
    assert "nowhere.safetensors" in refused("serve", "nowhere.safetensors")


def test_a_file_that_is_no_model(refused, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"x" * 1000)
    assert "model.safetensors" in refused("serve", path)


def test_two_models_of_one_name(refused, model, tmp_path):
    copy = tmp_path / model.name
    shutil.copy(model, copy)
    assert "have one name; rename one of them" in refused("serve", model, copy)


@pytest.mark.parametrize("token", ["", "two words", "ü"])
def test_a_token_that_no_header_can_carry(refused, model, token):
    assert "use letters and digits" in refused("serve", model, "--token", token)


@pytest.mark.parametrize(
    "wrong", [["--port", "99999"], ["--host", "no.such.host.invalid"], ["--max-seconds", "0"], ["--max-queued", "x"]]
)
def test_wrong_options(refused, model, wrong):
    assert wrong[0] in refused("serve", model, *wrong)


def test_the_address_is_taken(refused, model):
    from normscope.server.process import listen

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be served" in refused("serve", model, "--port", port)


def test_a_model_without_calibration_has_no_rate(run, tmp_path, good):
    from normscope import Detector

    path = tmp_path / "plain.safetensors"
    Detector("knn", false_alarm_rate=None).fit(good).save(path)
    code, _, err = run("serve", path, "--port", 0, "--false-alarm-rate", 0.1)
    assert code == 2
    assert err.splitlines()[-1].startswith("error: the model was fitted without a calibration set")


def test_every_limit_has_its_variable():
    import inspect

    from normscope.cli.serve import serve
    from normscope.server.limits import FLAGS, variable

    for flag in FLAGS.values():
        name = flag.removeprefix("--").replace("-", "_")
        (option,) = inspect.signature(serve).parameters[name].annotation.__metadata__
        assert option.envvar == variable(flag)


def test_a_token_may_lie_in_a_file(refused, model, tmp_path):
    from normscope.cli.serve import chosen_token

    (tmp_path / "token").write_text("correct-horse\n")
    assert chosen_token(None, tmp_path / "token") == "correct-horse"
    assert chosen_token("given", None) == "given"
    assert "a token and a file of one" in refused("serve", model, "--token", "a", "--token-file", tmp_path / "token")
    assert "nowhere: No such file" in refused("serve", model, "--token-file", tmp_path / "nowhere")
    (tmp_path / "token").write_bytes(b"\xff\n")
    assert "use letters and digits" in refused("serve", model, "--token-file", tmp_path / "token")
