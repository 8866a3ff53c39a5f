"""The example configuration in a real Alertmanager: who is told, and what hides what."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from timelines import INSTANCE, ROOT, SCOPE, Rules

CONFIG = ROOT / "deploy/alertmanager/alertmanager.yml"
ALERTS = Rules.committed().alerts["rules"]
SEVERITY = {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}
OTHER = {**SCOPE, "model": "other"}


def test_amtool_takes_it() -> None:
    done = subprocess.run(
        ["amtool", "check-config", str(CONFIG)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_names_no_alert_that_does_not_exist() -> None:
    for rule in yaml.safe_load(CONFIG.read_text("utf-8"))["inhibit_rules"]:
        for matcher in [*rule["source_matchers"], *rule["target_matchers"]]:
            label, _, value = matcher.replace('"', "").replace("~", "").partition("=")
            known = SEVERITY.keys() if label == "alertname" else SEVERITY.values()
            assert set(value.split("|")) <= set(known)


@pytest.mark.parametrize(
    "severity, receiver", [("critical", "on-call"), ("warning", "team"), ("info", "log")]
)
def test_each_severity_goes_to_its_receiver(severity: str, receiver: str) -> None:
    command = ["amtool", "config", "routes", "test", f"--config.file={CONFIG}"]
    done = subprocess.run(
        [*command, f"severity={severity}", "model=m"], capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == receiver, done.stderr


def alert(name: str, labels: dict[str, str] = SCOPE, **more: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, "severity": SEVERITY.get(name, ""), **labels, **more}}


class Alertmanager:
    """One that runs with the configuration, on a free port of loopback."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._base = f"http://127.0.0.1:{free.getsockname()[1]}/api/v2/"
        program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        assert program, "sh tests/prerequisites.sh installs it"
        address = self._base.removeprefix("http://").partition("/")[0]
        self._process = subprocess.Popen(
            [
                program,
                f"--config.file={CONFIG}",
                f"--storage.path={folder}",
                f"--web.listen-address={address}",
                "--cluster.listen-address=",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait(lambda: self._ask("status"))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def _wait(self, ask: Any) -> Any:
        """What it answers once it does, and is not empty."""
        for _ in range(600):
            try:
                if answer := ask():
                    return answer
            except urllib.error.URLError:
                assert self._process.poll() is None, "Alertmanager has ended"
            time.sleep(0.05)
        raise AssertionError("Alertmanager does not answer")

    def hidden(self, expected: set[str], *alerts: dict[str, Any]) -> set[str]:
        """Names of those of these alerts, which fire at once, that are inhibited.

        Inhibition comes a moment after the alerts: `expected` is waited for.
        """
        self._ask("alerts", list(alerts))
        wanted = [one["labels"] for one in alerts]
        for _ in range(200):
            found = [one for one in self._ask("alerts") if one["labels"] in wanted]
            inhibited = {_name(one) for one in found if one["status"]["inhibitedBy"]}
            if len(found) == len(alerts) and inhibited == expected:
                break
            time.sleep(0.05)
        return inhibited


def _name(alert: dict[str, Any]) -> str:
    return f"{alert['labels']['alertname']} {alert['labels'].get('model', '')}".strip()


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    running = Alertmanager(tmp_path)
    yield running
    running.close()


def test_a_proxy_that_is_down_hides_what_is_said_of_speed(alertmanager: Alertmanager) -> None:
    speeds = [
        rule["alert"]
        for rule in ALERTS
        if rule["labels"]["severity"] != "critical" and rule["alert"] != "ProxySlow"
    ]
    expected = {f"{name} org/m" for name in speeds}
    hidden = alertmanager.hidden(
        expected,
        alert("ProxyDown", INSTANCE),
        *(alert(name) for name in dict.fromkeys(speeds)),
        alert("DecodeRegression", {**OTHER, "job": "another"}),
        alert("ErrorRatio", OTHER),
        {"labels": {"alertname": "DiskFull", "severity": "warning", "job": "tokometer"}},
    )
    assert hidden == expected


def test_no_proxy_at_all_hides_them_too_but_nothing_of_others(alertmanager: Alertmanager) -> None:
    expected = {"DecodeRegression org/m"}
    hidden = alertmanager.hidden(
        expected,
        alert("ProxyAbsent", {}),
        alert("DecodeRegression"),
        alert("StreamsStalledNow", OTHER),
        {"labels": {"alertname": "DiskFull", "severity": "warning"}},
    )
    assert hidden == expected


@pytest.mark.parametrize("worse", ["StreamsStalledNow", "ErrorRatio"])
def test_stalled_and_failing_streams_hide_warnings_of_the_same_model(
    worse: str, alertmanager: Alertmanager
) -> None:
    expected = {"SlowerThanReading org/m", "TokensUncounted org/m"}
    hidden = alertmanager.hidden(
        expected,
        alert(worse),
        alert("SlowerThanReading"),
        alert("TokensUncounted"),
        alert("CanaryFailing"),
        alert("SlowerThanReading", OTHER),
    )
    assert hidden == expected


@pytest.mark.parametrize(
    "cause", ["SaturationKnee", "DecodeRegression", "PrefillRegression", "RegressionAfterDeploy"]
)
def test_a_cause_hides_what_is_not_corrected_for_it(cause: str, alertmanager: Alertmanager) -> None:
    expected = {"TTFTAboveBaseline org/m", "DecodeBelowBaseline org/m"}
    hidden = alertmanager.hidden(
        expected,
        alert(cause),
        alert("TTFTAboveBaseline"),
        alert("DecodeBelowBaseline"),
        alert("StallShare"),
        alert("TTFTAboveBaseline", OTHER),
    )
    assert hidden == expected
