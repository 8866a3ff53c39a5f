from pathlib import Path

import pytest

from proxy.config import Config, load
from proxy.settings import SettingError


def loaded(file: Path, text: str) -> Config:
    file.write_text(text)
    return load({"config": str(file)}, {})


FILE = """
canary_interval = "5m"
[upstreams.fast]
url = "http://a:1"
prefix = "/fast"
[upstreams.dear]
url = "https://b"
prefix = "/dear"
canary_interval = "off"
probe = "ask"
probe_interval = 60
"""


def test_a_table_of_an_upstream_comes_before_what_is_said_of_all(tmp_path: Path) -> None:
    config = loaded(tmp_path / "file", FILE)
    fast, dear = config.scouting_of("fast"), config.scouting_of("dear")
    assert (fast.canary_interval, fast.probe, fast.probe_interval) == (300, "auto", 15)
    assert (dear.canary_interval, dear.probe, dear.probe_interval) == (None, "ask", 60)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("canary_intervall = 5", "did you mean canary_interval"),
        ("probe = 1", "upstreams.dear.probe"),
        ("probe_interval = 0", "upstreams.dear.probe_interval"),
        ("canary_max_tokens = []", "upstreams.dear.canary_max_tokens"),
    ],
)
def test_what_will_not_do_is_named_with_its_table(tmp_path: Path, line: str, said: str) -> None:
    text = FILE.replace('probe = "ask"\nprobe_interval = 60\n', line)
    with pytest.raises(SettingError, match=said):
        loaded(tmp_path / "file", text)
