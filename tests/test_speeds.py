import pytest

from proxy.buckets import CHARACTER_RATE, DECODE_RATE, RATIO, TOKENS_PER_CHUNK
from proxy.metrics import Metrics
from proxy.series import Family
from proxy.speeds import Speeds


def test_they_are_part_of_all_metrics() -> None:
    assert issubclass(Metrics, Speeds)


@pytest.mark.parametrize("bound", [5, 10, 20, 40])
def test_a_share_of_streams_under_a_reading_speed_can_be_computed(bound: float) -> None:
    assert bound in DECODE_RATE


def test_reading_speed_in_characters_is_a_bound() -> None:
    assert 25 in CHARACTER_RATE
    assert CHARACTER_RATE[0] < 10 and CHARACTER_RATE[-1] >= 10_000


def test_one_token_a_chunk_and_no_bursts_have_buckets_of_their_own() -> None:
    assert TOKENS_PER_CHUNK[0] == 1
    assert RATIO[0] == 0 and max(RATIO) < 1


def test_what_only_settings_bring_is_not_prepared() -> None:
    metrics = Metrics({})
    metrics.prepare("up", "m")
    only: list[Family] = [metrics.objectives, metrics.ceiling, metrics.model_info]
    assert [one.collect().samples for one in only] == [[], [], []]
    assert metrics.tokens_per_chunk.collect().samples
