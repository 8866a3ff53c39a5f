from proxy.demo.speeds import live_line, summary
from proxy.scrape import Scrape

BEFORE = """\
tokometer_requests_total{model="a",outcome="completed"} 1
tokometer_output_tokens_total{model="a"} 100
tokometer_streams{model="a",phase="decoding"} 9
tokometer_time_to_first_token_seconds_bucket{model="a",le="0.1"} 50
tokometer_time_to_first_token_seconds_bucket{model="a",le="0.3"} 50
tokometer_time_to_first_token_seconds_bucket{model="a",le="+Inf"} 50
tokometer_decode_tokens_per_second_bucket{model="a",le="10"} 0
tokometer_decode_tokens_per_second_bucket{model="a",le="+Inf"} 0
"""
NOW = """\
tokometer_requests_total{model="a",outcome="completed"} 7
tokometer_requests_total{model="a",outcome="client_closed"} 2
tokometer_requests_total{model="b",outcome="truncated"} 1
tokometer_requests_total{model="unknown",outcome="rejected"} 3
tokometer_requests_total{model="unused",outcome="completed"} 0
tokometer_output_tokens_total{model="a"} 250
tokometer_output_tokens_total{model="b"} 50
tokometer_streams{model="a",phase="decoding"} 2
tokometer_streams{model="b",phase="waiting"} 1
tokometer_time_to_first_token_seconds_bucket{model="a",le="0.1"} 50
tokometer_time_to_first_token_seconds_bucket{model="a",le="0.3"} 52
tokometer_time_to_first_token_seconds_bucket{model="a",le="+Inf"} 52
tokometer_decode_tokens_per_second_bucket{model="a",le="10"} 0
tokometer_decode_tokens_per_second_bucket{model="a",le="30"} 4
tokometer_decode_tokens_per_second_bucket{model="a",le="+Inf"} 4
"""


def test_the_live_line_is_about_what_happened_since() -> None:
    before, now = Scrape(BEFORE, 10.0), Scrape(NOW, 12.0)
    assert live_line(before, before, now) == (
        "  3 streams    100 tokens/s  TTFT p50 0.20 s  decode p50  20 tokens/s per user"
        "  requests 13  errors 4"
    )


def test_without_samples_the_live_line_has_dashes() -> None:
    before, now = Scrape(NOW, 10.0), Scrape(NOW, 11.0)
    line = live_line(before, before, now)
    assert "  0 tokens/s  TTFT p50      -  decode p50   - tokens/s per user" in line


def test_the_summary_has_a_row_for_each_model_that_was_used() -> None:
    head, *rows = (line.split() for line in summary(Scrape(NOW, 12.0)))
    assert head[0] == "model"
    assert rows == [
        ["a", "9", "52", "ms", "99", "ms", "20", "250", "2", "0"],
        ["b", "1", "-", "-", "-", "50", "0", "1"],
        ["unknown", "3", "-", "-", "-", "0", "0", "3"],
    ]


def test_the_summary_is_aligned() -> None:
    assert len({len(line) for line in summary(Scrape(NOW, 12.0))}) == 1
