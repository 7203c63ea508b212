from normscope.server.metrics import Metrics, lines


def test_text_is_what_prometheus_reads():
    metrics = Metrics()
    for seconds in (0.01, 0.02, 99):
        metrics.request("/score", 200, seconds)
    text = metrics.text({"ready": ("Whether.", 1)}, {}, {"tile": True})
    assert '# TYPE normscope_requests_total counter\nnormscope_requests_total{path="/score",status="200"} 3\n' in text
    assert 'normscope_request_seconds_bucket{le="0.01"} 1\n' in text
    assert 'normscope_request_seconds_bucket{le="0.03"} 2\n' in text
    assert 'normscope_request_seconds_bucket{le="+Inf"} 3\n' in text
    assert "normscope_request_seconds_count 3\n" in text
    assert "# TYPE normscope_ready gauge\nnormscope_ready 1\n" in text
    assert text.endswith('# TYPE normscope_normal_moved gauge\nnormscope_normal_moved{model="tile"} 1.0\n')


def test_labels_are_escaped():
    (*_, line) = lines("x", "gauge", "X.", {(("model", 'a"b\\c\nd'),): 1})
    assert line == 'normscope_x{model="a\\"b\\\\c\\nd"} 1'
