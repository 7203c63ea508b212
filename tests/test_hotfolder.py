import os

from normscope.hotfolder import LAST_TRY, look, signature


def polls(folder, before=None, scored=None):
    found = look(folder, before or {}, scored or {})
    return found, {path.name: one.polls for path, one in found.items()}


def test_a_file_is_due_once_it_has_stopped_changing(tmp_path):
    (tmp_path / "a.png").write_bytes(b"1")
    first, counted = polls(tmp_path)
    assert counted == {"a.png": 1}
    (tmp_path / "a.png").write_bytes(b"12")  # another size
    second, counted = polls(tmp_path, first)
    assert counted == {"a.png": 1}
    os.utime(tmp_path / "a.png", ns=(1, 1))  # the same size at another time
    third, counted = polls(tmp_path, second)
    assert counted == {"a.png": 1}
    fourth, counted = polls(tmp_path, third)
    assert counted == {"a.png": 2}
    assert [one.due for one in (*third.values(), *fourth.values())] == [False, True]


def test_a_file_that_could_not_be_read_is_due_once_more(tmp_path):
    (tmp_path / "a.png").write_bytes(b"1")
    found, due = {}, []
    for poll in range(1, 2 * LAST_TRY):
        found = look(tmp_path, found, {})
        due += [poll for one in found.values() if one.due]
    assert due == [2, LAST_TRY]


def test_a_file_that_is_scored_is_looked_at_again_only_if_it_was_replaced(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"1")
    scored = {path: signature(path)}
    assert polls(tmp_path, {}, scored)[1] == {}
    path.write_bytes(b"12")
    assert polls(tmp_path, {}, scored)[1] == {"a.png": 1}


def test_folders_below_links_and_what_is_no_image(tmp_path):
    (tmp_path / "below" / "more").mkdir(parents=True)
    (tmp_path / "below" / "more" / "a.png").write_bytes(b"1")
    (tmp_path / ".hidden.png").write_bytes(b"1")
    (tmp_path / "notes.txt").write_bytes(b"1")
    (tmp_path / "broken.png").symlink_to(tmp_path / "nowhere")
    found, counted = polls(tmp_path)
    assert counted == {"broken.png": 1, "a.png": 1}
    (tmp_path / "below" / "more" / "a.png").unlink()
    assert polls(tmp_path, found)[1] == {"broken.png": 2}
