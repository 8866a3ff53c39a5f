from records import begin, end, output, value

from proxy.dials import Dials, DialTable
from proxy.labels import Models
from proxy.live import Live
from proxy.metrics import Metrics
from proxy.nameplate import Nameplate
from proxy.roofline import Memory

FAST = {"memory_bandwidth": Memory(100, "H200"), "bytes_per_token": 4, "precision": "bf16"}


class Rig:
    def __init__(self, dials: DialTable) -> None:
        self.metrics = Metrics({})
        self.plate = Nameplate(self.metrics, dials)

    def ceiling(self, upstream: str, model: str) -> float | None:
        labels = {"upstream": upstream, "model": model}
        return value(self.metrics.collect(), "tokometer_ceiling_tokens_per_second", **labels)

    def info(self, upstream: str, model: str, dials: Dials) -> float | None:
        assert dials.info is not None
        names = ("precision", "hardware", "engine")
        labels = dict(zip(names, dials.info, strict=True)) | {"upstream": upstream, "model": model}
        return value(self.metrics.collect(), "tokometer_model_info", **labels)


def test_models_that_the_settings_name_are_there_from_the_start() -> None:
    table = DialTable({}, {}, {("up", "m"): FAST})
    rig = Rig(table)
    assert rig.ceiling("up", "m") == 25
    assert rig.info("up", "m", table.of("up", "m")) == 1


def test_others_are_there_as_soon_as_they_are_known() -> None:
    table = DialTable(FAST, {"up": {"devices": 2}})
    rig = Rig(table)
    assert rig.ceiling("up", "m") is None
    rig.plate.end(None, "m", end(1, 12.0))
    assert rig.ceiling("up", "m") == 50
    assert rig.info("up", "m", table.of("up", "m")) == 1
    exchange = Live(Models(9, lambda: None)).begin(1, begin(1, 10.0, upstream="other"))
    assert exchange is not None
    exchange.label = "n"
    rig.plate.output(exchange, output(1, 11.0))
    assert rig.ceiling("other", "n") == 25


def test_what_stands_for_several_models_has_none() -> None:
    rig = Rig(DialTable(FAST))
    for label in ("unknown", "other"):
        rig.plate.end(None, label, end(1, 12.0))
        assert rig.ceiling("up", label) is None


def test_what_is_not_known_is_absent() -> None:
    rig = Rig(DialTable({"engine": "vLLM"}))
    rig.plate.end(None, "m", end(1, 12.0))
    assert rig.ceiling("up", "m") is None
    assert rig.info("up", "m", Dials(engine="vLLM")) == 1
    bare = Rig(DialTable({"memory_bandwidth": Memory(100), "bytes_per_token": 4}))
    bare.plate.end(None, "m", end(1, 12.0))
    assert bare.ceiling("up", "m") == 25
    assert not any(one.samples for one in bare.metrics.collect() if "model_info" in one.name)
