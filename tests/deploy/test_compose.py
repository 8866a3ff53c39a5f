"""deploy/compose: what Compose, Prometheus and the proxy are told is what they take."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from timelines import ROOT

from deploy.prometheus.rules.settings import DAY, PRESETS
from proxy.config import Config

FOLDER = ROOT / "deploy/compose"
FILE = FOLDER / "compose.yml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, Any] = DOCUMENT["services"]
PROMETHEUS = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
OWN = {"engine", "proxy"}

every_service = pytest.mark.parametrize("name", SERVICES)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def mounts(name: str) -> dict[str, str]:
    """What of this repository a service has: paths there, by its places in the container."""
    pairs = [mount.split(":") for mount in SERVICES[name].get("volumes", [])]
    return {target: source for source, target, *_ in pairs if source.startswith(".")}


def test_it_is_what_the_compose_specification_allows() -> None:
    done = run(
        *(sys.executable, "-m", "check_jsonschema"),
        *("--builtin-schema", "vendor.compose-spec", str(FILE)),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@every_service
def test_images_of_others_are_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    if name in OWN:
        assert SERVICES[name]["build"] == {"context": "../.."}
        assert (FOLDER / "../../Dockerfile").exists()
    else:
        assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", image)


@every_service
def test_a_service_is_looked_after_and_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@every_service
def test_what_is_mounted_is_there_and_cannot_be_written(name: str) -> None:
    for source in mounts(name).values():
        assert (FOLDER / source).exists(), source
    for mount in SERVICES[name].get("volumes", []):
        source, *_, last = mount.split(":")
        assert last == "ro" if source.startswith(".") else source in DOCUMENT["volumes"]


def test_no_password_is_in_it() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_ADMIN_PASSWORD"].startswith("${GRAFANA_PASSWORD:?")
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "false"


def test_the_upstream_is_the_simulated_engine_until_another_is_named() -> None:
    assert SERVICES["proxy"]["environment"] == {
        "TOKOMETER_UPSTREAM": "${UPSTREAM:-http://engine:8000}"
    }
    assert "--port=8000" in SERVICES["engine"]["command"]


def test_the_engine_takes_its_flags() -> None:
    command, *flags = SERVICES["engine"]["command"]
    told = run(sys.executable, "-m", "proxy", command, *flags, "--help")
    assert told.returncode == 0, told.stderr
    known = set(re.findall(r"--[a-z-]+", told.stdout))
    assert {flag.split("=")[0] for flag in flags} <= known


def test_streams_have_time_to_end() -> None:
    seconds = int(SERVICES["proxy"]["stop_grace_period"].removesuffix("s"))
    assert seconds > Config.drain_seconds


def test_prometheus_takes_its_configuration_and_all_that_it_names(tmp_path: Path) -> None:
    for target, source in mounts("prometheus").items():
        shutil.copy(FOLDER / source, tmp_path / Path(target).name)
    done = run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


def test_prometheus_asks_services_that_exist_at_their_ports() -> None:
    (scrape,) = PROMETHEUS["scrape_configs"]
    assert scrape["job_name"] == PRESETS["week"].job
    (managers,) = PROMETHEUS["alerting"]["alertmanagers"]
    for one, port in ((scrape, "9464"), (managers, "9093")):
        (name, found) = one["static_configs"][0]["targets"][0].split(":")
        assert found == port
        assert any(published.endswith(f":{port}") for published in SERVICES[name]["ports"])


def test_prometheus_remembers_the_baseline() -> None:
    (days,) = re.findall(r"retention\.time=(\d+)d", " ".join(SERVICES["prometheus"]["command"]))
    baseline = PRESETS["week"].baseline
    assert int(days) * DAY > baseline.length + baseline.ago


def test_grafana_finds_data_source_and_boards() -> None:
    places = mounts("grafana")
    (source,) = _provisioned("datasources")["datasources"]
    assert source["url"] == "${PROMETHEUS_URL}"
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    (provider,) = _provisioned("dashboards")["providers"]
    boards = provider["options"]["path"]
    assert places[boards].endswith("grafana/dashboards")
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(boards)
    assert (ROOT / "grafana/dashboards" / Path(home).name).exists()


def _provisioned(what: str) -> dict[str, Any]:
    path = ROOT / f"grafana/provisioning/{what}/tokometer.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def test_alerts_of_grafanas_own_look_for_this_data_source() -> None:
    (source,) = _provisioned("datasources")["datasources"]
    alerts = ROOT.joinpath("grafana/provisioning/alerting/tokometer.yml").read_text("utf-8")
    asked = set(re.findall(r"datasourceUid: (\S+)", alerts))
    assert asked == {source["uid"], "__expr__"}
