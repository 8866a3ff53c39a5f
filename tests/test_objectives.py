from pathlib import Path
from typing import Any

import pytest
from records import end

from proxy.objectives import SETTINGS, Objectives, ObjectiveTable, of_file, verdicts
from proxy.settings import SettingError

FILE = Path("x.toml")
AIMS = Objectives(ttft=0.5, tpot=0.05, duration=10.0)
GOOD: dict[str, Any] = {
    "ttft_seconds": 0.5,
    "decode_tokens_per_second": 20.0,
    "duration_seconds": 10.0,
}


def of(
    aims: Objectives = AIMS, waited: float | None = None, asked: bool = True, **more: Any
) -> dict[str, bool]:
    return verdicts(aims, end(1, 12.0, **more), asked, waited)


def failed(outcome: str, code: int | None = None, **more: Any) -> dict[str, bool]:
    return of(outcome=outcome, code=code, answered=False, stream=False, **more)


def test_limits_themselves_are_met() -> None:
    assert of(**GOOD) == {"ttft": True, "tpot": True, "duration": True, "all": True}


@pytest.mark.parametrize(
    ("missed", "measured"),
    [
        ("ttft", {"ttft_seconds": 0.51}),
        ("tpot", {"decode_tokens_per_second": 19.9}),
        ("duration", {"duration_seconds": 10.1}),
    ],
)
def test_one_that_is_missed_is_missed_for_all(missed: str, measured: dict[str, Any]) -> None:
    expected = {"ttft": True, "tpot": True, "duration": True} | {missed: False, "all": False}
    assert of(**GOOD | measured) == expected


def test_tokens_per_second_are_the_same_as_a_time_per_token() -> None:
    aims = Objectives(tokens_per_second=20.0)
    assert of(aims, **GOOD) == {"tpot": True, "all": True}
    assert of(aims, **GOOD | {"decode_tokens_per_second": 19.9})["tpot"] is False


def test_without_objectives_nothing_counts() -> None:
    assert of(Objectives(), **GOOD) == {}


def test_what_could_not_be_measured_cannot_be_missed() -> None:
    assert of(ttft_seconds=0.1, skipped="one_token") == {"ttft": True, "all": True}
    assert of(waited=99.0, skipped="no_output") == {"all": True}


def test_a_body_that_is_no_stream_counts_for_the_duration_alone() -> None:
    body: dict[str, Any] = {"stream": False, "duration_seconds": 3.0}
    assert of(asked=False, **body) == {"duration": True, "all": True}
    assert of(Objectives(ttft=0.5), asked=False, **body) == {}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("rejected", 500),
        ("rejected", 503),
        ("rejected", 429),
        ("error_midstream", 200),
        ("truncated", 200),
        ("unreachable", 502),
        ("timeout", 504),
        ("aborted", 503),
        ("aborted", None),
    ],
)
def test_failures_of_the_server_are_not_met(outcome: str, code: int | None) -> None:
    assert failed(outcome, code) == {"all": False}


@pytest.mark.parametrize("code", [400, 401, 404, 413, 422])
def test_what_the_client_did_wrong_counts_nowhere(code: int) -> None:
    assert failed("rejected", code, waited=99.0, duration_seconds=99.0) == {}


@pytest.mark.parametrize("code", [400, 408])
def test_a_request_that_broke_off_is_the_clients_doing(code: int) -> None:
    assert failed("aborted", code) == {}


def test_a_stream_that_failed_has_its_ttft_all_the_same() -> None:
    assert of(outcome="truncated", ttft_seconds=0.1) == {"ttft": True, "all": False}
    assert of(outcome="truncated", ttft_seconds=0.6) == {"ttft": False, "all": False}


def test_one_that_failed_after_a_longer_silence_missed_its_ttft() -> None:
    assert failed("timeout", 504, waited=0.6) == {"ttft": False, "all": False}
    assert failed("timeout", 504, waited=0.4) == {"all": False}


def test_a_client_that_left_in_time_says_nothing() -> None:
    assert failed("client_closed", waited=0.4) == {}
    assert of(outcome="client_closed", ttft_seconds=0.4, waited=3.0) == {"ttft": True}


def test_a_client_that_gave_up_is_a_miss_of_what_it_waited_for() -> None:
    assert failed("client_closed", waited=0.6) == {"ttft": False, "all": False}
    left = of(outcome="client_closed", first_at=10.1, ttft_seconds=0.1, waited=10.1)
    assert left == {"ttft": True, "duration": False, "all": False}
    assert of(outcome="client_closed", ttft_seconds=0.6, waited=1.0)["all"] is False


def test_output_whose_time_is_not_known_is_no_miss() -> None:
    assert of(outcome="client_closed", first_at=9.0, waited=3.0) == {}


# --- settings -----------------------------------------------------------------------------------


def test_a_table_of_the_file_has_the_flags_names_without_their_beginning() -> None:
    assert [one.flag for one in SETTINGS] == [
        "--objective-ttft",
        "--objective-tpot",
        "--objective-tokens-per-second",
        "--objective-duration",
    ]
    table = {"ttft": "500ms", "tokens_per_second": 20, "m": {"ttft": 1, "duration": "2m"}}
    everywhere, models = of_file(table, FILE)
    assert everywhere == {"ttft": 0.5, "tokens_per_second": 20.0}
    assert models == {"m": {"ttft": 1.0, "duration": 120.0}}


def test_those_of_a_model_go_before_those_of_all() -> None:
    table = ObjectiveTable({"ttft": 0.5, "tpot": 0.05}, {"m": {"tokens_per_second": 5.0}})
    assert table.of("n").limits() == {"ttft": 0.5, "tpot": 0.05}
    assert table.of("m").limits() == {"ttft": 0.5, "tpot": 0.2}


def test_off_takes_one_back_for_a_model() -> None:
    everywhere, models = of_file({"ttft": 1, "m": {"ttft": "off"}}, FILE)
    assert ObjectiveTable(everywhere, models).of("m").limits() == {}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (1, "objectives in x.toml: give a table, such as [objectives] ttft = 0.5"),
        ({"tfft": 1}, "objectives.tfft in x.toml: no such setting: did you mean ttft?"),
        ({"ttft": 0}, "objectives.ttft in x.toml: '0' will not do: give a duration"),
        ({"m": {"x": 1}}, 'objectives."m".x in x.toml: no such setting: leave it out'),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_key(table: object, said: str) -> None:
    with pytest.raises(SettingError) as refusal:
        of_file(table, FILE)
    assert str(refusal.value).startswith(said)


def test_one_that_is_given_in_two_ways_is_an_error_that_names_the_model() -> None:
    both = {"tpot": 0.1, "tokens_per_second": 10.0}
    for table, where in ((ObjectiveTable(models={"m": both}), 'objectives."m"'),):
        with pytest.raises(SettingError) as refusal:
            table.check()
        assert str(refusal.value) == (
            f"{where}: tpot and tokens_per_second say the same thing: leave one of them out"
        )
