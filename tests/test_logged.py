import json
from pathlib import Path

import pytest

from proxy.logged import cells
from proxy.settings import SettingError


def log(path: Path, *lines: object) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def stream(rate: float | None, model: str = "m", users: int | None = 1) -> dict[str, object]:
    line = {"model": model, "concurrency": users, "decode_tokens_per_second": rate}
    return {key: value for key, value in line.items() if value is not None}


def test_rates_are_gathered_by_model_and_concurrency_over_all_logs(tmp_path: Path) -> None:
    one = log(tmp_path / "1", stream(40.0), stream(20.0, users=8), stream(None, users=8))
    two = log(tmp_path / "2", stream(5.0, users=15), stream(1.0, "n", 64), stream(9.0, "a", None))
    assert cells([one, two]) == [
        ("a", "unknown", [9.0]),
        ("m", "1", [40.0]),
        ("m", "8-15", [20.0, 5.0]),
        ("n", "64+", [1.0]),
    ]
    assert [cell.model for cell in cells([one, two], "n")] == ["n"]


def test_users_are_the_mean_over_the_decode_phase_where_the_log_has_it(tmp_path: Path) -> None:
    first = stream(20.0, users=1) | {"decode_concurrency": 7.6}
    path = log(tmp_path / "1", first, stream(20.0, users=8))
    assert cells([path]) == [("m", "8-15", [20.0, 20.0])]


def test_classes_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = log(tmp_path / "1", *(stream(9.0, users=users) for users in (64, 9, 2, 16, 1, 4, 40)))
    found = [cell.concurrency for cell in cells([path])]
    assert found == ["1", "2-3", "4-7", "8-15", "16-31", "32-63", "64+"]


def test_the_rate_of_a_cell_is_the_geometric_mean(tmp_path: Path) -> None:
    path = log(tmp_path / "1", stream(20.0), stream(5.0))
    assert cells([path])[0].rate == pytest.approx(10)


def test_lines_without_a_usable_rate_are_passed_over(tmp_path: Path) -> None:
    odd = [{"decode_tokens_per_second": rate} for rate in ("9", 0, -1, None, [9])]
    path = log(tmp_path / "1", *odd, {}, stream(9.0))
    assert cells([path]) == [("m", "1", [9.0])]


def test_a_log_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^log: cannot read .*x: No such file or directory$"):
        cells([str(tmp_path / "x")])
    torn = log(tmp_path / "torn", stream(40.0))
    for part in ('{"model"', "[]", "\n", "\x00"):
        Path(torn).write_text(json.dumps(stream(40.0)) + "\n" + part)
        with pytest.raises(SettingError) as refusal:
            cells([torn])
        said = f"log: {torn} line 2 is no JSON object: give a file of --log-requests"
        assert str(refusal.value) == said
    nothing = log(tmp_path / "nothing", stream(None))
    with pytest.raises(SettingError, match=r"^log: there is no decode rate in .*nothing$"):
        cells([nothing])
    with pytest.raises(SettingError, match=r"no decode rate of n in"):
        cells([nothing, log(tmp_path / "m", stream(1.0))], "n")
