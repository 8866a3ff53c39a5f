from typing import Any

import pytest
from records import total, value

from proxy.channel import Probed
from proxy.labels import Models
from proxy.metrics import Metrics
from proxy.standing import Standing

UP = {"upstream": "up"}


class Rig:
    def __init__(self) -> None:
        self.metrics = Metrics({})
        self.models = Models(10, lambda: None)
        self.standing = Standing(self.metrics, self.models)

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.metrics.collect(), f"tokometer_{name}", **labels)

    def total(self, name: str, **labels: str) -> float:
        return total(self.metrics.collect(), f"tokometer_{name}", **labels)

    def server(self, name: str, upstream: str = "up") -> None:
        self.standing.identity({"kind": "identity", "upstream": upstream, "server": name})

    def probed(self, up: bool, **more: Any) -> None:
        record: Probed = {"kind": "probed", "upstream": "up", "up": up}
        self.standing.probed(record | more)  # type: ignore[arg-type]

    def told(self, engine: str, version: str = "", *models: str) -> None:
        self.probed(True, engine=engine, version=version, models=list(models))

    def sung(self, success: bool, **more: Any) -> None:
        record = {"kind": "sung", "upstream": "up", "model": "m", "success": success}
        self.standing.sung(record | more)  # type: ignore[arg-type]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_upstream_is_up_or_down_once_that_is_known(rig: Rig) -> None:
    assert rig.value("upstream_up", **UP) is None
    rig.standing.connected({"kind": "connected", **UP, "seconds": 0.002})  # type: ignore[typeddict-item]
    assert rig.value("upstream_up", **UP) == 1
    assert rig.value("connect_seconds_sum", **UP) == 0.002
    rig.standing.connected({"kind": "connected", "upstream": "up"})
    assert rig.value("upstream_up", **UP) == 0
    assert rig.value("connect_seconds_count", **UP) == 1


def test_probes_and_connections_move_the_same_gauge_and_probes_no_histogram(rig: Rig) -> None:
    rig.probed(False)
    assert rig.value("upstream_up", **UP) == 0
    rig.standing.connected({"kind": "connected", "upstream": "up", "seconds": 0.002})
    assert rig.value("upstream_up", **UP) == 1
    rig.probed(False)
    rig.probed(True)
    assert rig.value("upstream_up", **UP) == 1
    assert rig.value("connect_seconds_count", **UP) == 1


@pytest.mark.parametrize(
    ("server", "engine", "version"),
    [
        ("llama.cpp", "llama.cpp", ""),
        ("uvicorn", "uvicorn", ""),
        ("Ollama/0.9.1", "Ollama", "0.9.1"),
        ("nginx/1.18.0 (Ubuntu)", "nginx", "1.18.0"),
        (" TornadoServer/6.1 x/2", "TornadoServer", "6.1"),
        ("a\x01b/1\x7f", "a?b", "1?"),
    ],
)
def test_a_server_header_names_engine_and_version(
    rig: Rig, server: str, engine: str, version: str
) -> None:
    rig.server("before/1")
    rig.server(server)
    assert rig.value("upstream_info", **UP, engine=engine, version=version) == 1
    assert rig.total("upstream_info") == 1


def test_a_server_header_that_says_nothing_changes_nothing(rig: Rig) -> None:
    rig.server("vllm/0.32")
    rig.server(" / ")
    assert rig.value("upstream_info", **UP, engine="vllm", version="0.32") == 1


def test_what_an_upstream_says_of_itself_counts_more_than_its_web_server(rig: Rig) -> None:
    rig.server("uvicorn")
    rig.told("vllm", "0.32.0")
    rig.server("nginx/1")
    assert rig.value("upstream_info", **UP, engine="vllm", version="0.32.0") == 1
    assert rig.total("upstream_info") == 1
    rig.server("nginx/1", upstream="another")
    assert rig.value("upstream_info", upstream="another", engine="nginx", version="1") == 1


def test_a_new_version_is_a_new_series_and_the_old_one_is_gone(rig: Rig) -> None:
    rig.told("vllm", "0.32.0")
    rig.probed(False)
    assert rig.value("upstream_info", **UP, engine="vllm", version="0.32.0") == 1
    rig.told("vllm", "0.33.0")
    assert rig.value("upstream_info", **UP, engine="vllm", version="0.33.0") == 1
    assert rig.total("upstream_info") == 1


def test_an_upstream_that_tells_nothing_any_more_has_its_web_server_again(rig: Rig) -> None:
    rig.told("vllm", "0.32.0")
    rig.told("")
    assert rig.total("upstream_info") == 0
    rig.server("nginx/1")
    rig.told("")
    assert rig.value("upstream_info", **UP, engine="nginx", version="1") == 1


def test_what_upstreams_say_is_made_fit_for_labels(rig: Rig) -> None:
    rig.told(" vl\nlm", "1" * 1000)
    assert rig.value("upstream_info", **UP, engine="vl?lm", version="1" * 128) == 1


def test_a_list_of_models_tells_which_names_are_invented(rig: Rig) -> None:
    rig.told("vllm", "0.32.0", "llama")
    assert rig.models.learn("up", "invented", "invented") == "other"
    assert rig.models.learn("up", "llama", "llama") == "llama"
    rig.told("sglang", "0.5", "llama")
    assert rig.models.learn("up", "default", "default") == "llama"


def test_a_canary_sets_what_it_found_and_nothing_else(rig: Rig) -> None:
    rig.sung(True, ttft_seconds=0.25, decode_tokens_per_second=80.0)
    assert rig.value("canary_success", **UP, model="m") == 1
    assert rig.value("canary_time_to_first_token_seconds", **UP, model="m") == 0.25
    assert rig.value("canary_decode_tokens_per_second", **UP, model="m") == 80
    rig.sung(True, ttft_seconds=0.3)
    assert rig.value("canary_time_to_first_token_seconds", **UP, model="m") == 0.3
    assert rig.value("canary_decode_tokens_per_second", **UP, model="m") is None


def test_a_canary_that_failed_leaves_no_speed_of_an_earlier_one(rig: Rig) -> None:
    rig.sung(True, ttft_seconds=0.25, decode_tokens_per_second=80.0)
    rig.sung(False)
    assert rig.value("canary_success", **UP, model="m") == 0
    assert rig.total("canary_time_to_first_token_seconds") == 0
    assert rig.total("canary_decode_tokens_per_second") == 0


def test_a_canary_of_another_model_takes_the_place_of_the_last(rig: Rig) -> None:
    rig.sung(False, model="")
    assert rig.value("canary_success", **UP, model="unknown") == 0
    rig.sung(True)
    assert rig.value("canary_success", **UP, model="m") == 1
    assert rig.value("canary_success", **UP, model="unknown") is None
