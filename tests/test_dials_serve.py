"""`tokometer serve` with what a file says of models: dials, ceilings, objectives."""

from pathlib import Path

from serve_rig import Upstream, eventually, serving
from test_weights import of_gguf

UM = {"upstream": "default", "model": "m"}
SETTINGS = """
memory_bandwidth = "H200"
engine = "vLLM"

[upstreams.default.models.m]
weights = "WEIGHTS"
precision = "Q8"

[upstreams.default.models.later]
bytes_per_token = "48GB"

[objectives]
ttft = "20s"
duration = "1m"

[objectives.m]
duration = "1ms"
"""


def test_what_a_file_says_of_models_is_in_the_metrics(upstream: Upstream, tmp_path: Path) -> None:
    weights = of_gguf(tmp_path / "m.gguf", {"a": 3200})
    file = tmp_path / "tokometer.toml"
    file.write_text(SETTINGS.replace("WEIGHTS", str(weights)))
    with serving("--upstream", upstream.url, "--config", str(file)) as proxy:
        proxy.ready()
        ceiling, info = "tokometer_ceiling_tokens_per_second", "tokometer_model_info"
        assert proxy.count(ceiling, **UM) == 4.8e12 / 3200
        assert proxy.count(ceiling, upstream="default", model="later") == 100
        assert proxy.count(info, **UM, precision="Q8", hardware="H200", engine="vLLM") == 1
        objectives = "tokometer_objectives_total"
        assert proxy.count(objectives) == 0
        upstream.go_on.set()
        with proxy.stream() as answer:
            answer.read()
        assert eventually(lambda: proxy.count(objectives, **UM, objective="all") == 1)
        assert proxy.count(objectives, **UM, objective="ttft", met="true") == 1
        assert proxy.count(objectives, **UM, objective="duration", met="false") == 1
        assert proxy.count(objectives, **UM, objective="all", met="false") == 1
