import re
import subprocess
from pathlib import Path

import pytest

from deploy.prometheus import generate
from deploy.prometheus.rules.rule import quoted
from deploy.prometheus.rules.settings import DAY, HOUR, PRESETS, Baseline, Settings, duration


def test_the_committed_files_are_what_the_source_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_file_that_was_changed_by_hand_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--out", str(tmp_path)]) == 0
    assert generate.main(["--out", str(tmp_path), "--check"]) == 0
    changed = tmp_path / "deploy/prometheus/tokometer.alerts.yml"
    changed.write_text(changed.read_text("utf-8").replace("1.15", "1.2"), "utf-8")
    assert generate.main(["--out", str(tmp_path), "--check"]) == 1
    assert str(changed) in capsys.readouterr().err


def test_a_file_that_is_missing_is_found(tmp_path: Path) -> None:
    assert generate.main(["--out", str(tmp_path), "--check"]) == 1


def test_the_short_baseline_is_one_setting_away(tmp_path: Path) -> None:
    generate.main(["--out", str(tmp_path), "--baseline", "short"])
    text = (tmp_path / "deploy/prometheus/tokometer.rules.yml").read_text("utf-8")
    assert "[20h:15m] offset 2h" in text
    assert "[7d:1h] offset 1d" not in text


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
def test_now_is_not_compared_with_itself(settings: Settings) -> None:
    assert settings.index_window < settings.index_long_window <= settings.baseline.ago


def test_a_pinned_baseline_ends_at_a_moment(tmp_path: Path) -> None:
    generate.main(["--out", str(tmp_path), "--baseline-end", "2026-11-23T00:00:00+00:00"])
    text = (tmp_path / "deploy/prometheus/tokometer.rules.yml").read_text("utf-8")
    assert "[7d:1h] @ 1795392000)" in text
    assert "tile[7d:1h] offset" not in text


@pytest.mark.parametrize("text", ["yesterday", "2026-11-23T00:00:00"])
def test_a_moment_without_a_zone_is_an_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        generate.main(["--baseline-end", text])
    assert caught.value.code == 2
    assert "2026-11-23T00:00:00Z" in capsys.readouterr().err


def test_links_lead_where_they_are_told_to(tmp_path: Path) -> None:
    there = ["--runbooks", "https://wiki/r.md", "--grafana", "https://graphs"]
    generate.main(["--out", str(tmp_path), *there])
    text = (tmp_path / "deploy/prometheus/tokometer.alerts.yml").read_text("utf-8")
    assert "runbook_url: https://wiki/r.md#decoderegression" in text
    assert "dashboard_url: https://graphs/d/tokometer-regression?" in text


def test_the_options_that_the_readme_names_exist() -> None:
    text = (generate.ROOT / "deploy/prometheus/README.md").read_text("utf-8")
    lines = re.findall(r"^(?:.*prometheus\.generate |\| `)(--.*)$", text, re.MULTILINE)
    named = {flag for line in lines for flag in re.findall(r"(?<![\w.-])--[a-z-]+", line)}
    exist = {flag for action in generate.parser()._actions for flag in action.option_strings}
    assert named - {"--storage"} == exist - {"-h", "--help"}


@pytest.mark.parametrize(
    "seconds, text", [(90, "90s"), (900, "15m"), (20 * HOUR, "20h"), (DAY, "1d")]
)
def test_durations_are_in_one_unit(seconds: int, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("baseline", [one.baseline for one in PRESETS.values()], ids=PRESETS)
def test_a_baseline_is_made_of_whole_tiles(baseline: Baseline) -> None:
    assert baseline.length % baseline.tile == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--job", "("], "'(' is no regular expression (missing ), unterminated subpattern"),
        (["--job", "*"], "'*' is no regular expression (nothing to repeat at position 0): mend"),
        (["--job", ""], "'' will not do: give the name of a job, or several as one|other"),
        (["--job", "a(?!b)"], "Prometheus knows nothing that looks around or back"),
        (["--job", r"(a)\1"], "Prometheus knows nothing that looks around or back"),
        (["--job", "a++"], "Prometheus knows nothing that looks around or back"),
        (["--job", "a\nb"], "'a\\nb' will not do: give the name of a job"),
        (["--runbooks", "docs/runbooks.md"], "give an http URL without blanks, quotes, braces, ?"),
        (["--runbooks", "https://wiki/a b"], "'https://wiki/a b' will not do: give an http URL"),
        (["--runbooks", "https://wiki/{{ . }}"], "give an http URL without blanks"),
        (["--runbooks", "https://wiki/r#x"], "give an http URL without blanks"),
        (["--grafana", 'http://g"'], "give an http URL without blanks"),
        (["--grafana", "http://g/?orgId=1"], "give an http URL without blanks"),
        (["--grafana", ""], "give an http URL without blanks"),
        (["--baseline", "month"], "invalid choice: 'month'"),
        (["--out", __file__], "is no folder: give one, there or new"),
        (["--out", ""], "is no folder: give one, there or new"),
    ],
)
def test_what_would_make_rules_that_do_not_work_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        generate.main(["--out", str(tmp_path), *arguments])
    assert caught.value.code == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert f"argument {arguments[0]}: " in error and said in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", [r"toko\.prod|edge-[0-9]+", 'a"b', "größe", r"a\\b", "(?i)toko.*"])
def test_a_job_is_what_prometheus_reads(job: str, tmp_path: Path) -> None:
    generate.main(["--out", str(tmp_path), "--job", job, "--grafana", "https://graphs/"])
    alerts = tmp_path / "deploy/prometheus/tokometer.alerts.yml"
    checked = subprocess.run(["promtool", "check", "rules", alerts], capture_output=True)
    assert checked.returncode == 0, checked.stdout
    text = alerts.read_text("utf-8")
    assert f"absent(up{{job=~{quoted(job)}}})" in text
    assert "https://graphs/d/" in text


def test_the_files_that_are_written_elsewhere_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        generate.main(["--help"])
    told = "".join(capsys.readouterr().out.split())
    readme = (generate.ROOT / "deploy/prometheus/README.md").read_text("utf-8")
    for name in generate.rendered(Settings()):
        assert name in told
        assert f"DIR/{name}" in readme
