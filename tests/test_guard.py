from pathlib import Path

import pytest
from starlette.testclient import TestClient
from test_tls import reading

from proxy.admin import admin
from proxy.guard import Guard, is_own
from proxy.settings import SettingError

TOKEN = "0123456789abcdef"
PAGES = ["/metrics", "/", "/config", "/no/such/page"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def client(guard: Guard, host: str = "127.0.0.1:9464") -> TestClient:
    return TestClient(guard.around(admin(lambda: [], lambda: None)), base_url=f"http://{host}")


@pytest.mark.parametrize("page", PAGES)
def test_without_the_token_nothing_is_told(file: Path, page: str) -> None:
    answer = client(Guard(reading(admin_token_file=str(file)), local=True)).get(page)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert answer.text == "a token is needed: see --admin-token-file\n"


def test_with_it_all_is_as_without_a_guard(file: Path) -> None:
    asked = client(Guard(reading(admin_token_file=str(file)), local=False))
    asked.headers["authorization"] = f"Bearer {TOKEN}"
    assert asked.get("/metrics").status_code == 200
    assert asked.post("/metrics").status_code == 405
    asked.headers.pop("authorization")
    assert asked.get("/metrics", auth=("me", TOKEN)).status_code == 200


def test_a_name_that_others_made_does_not_matter_to_who_has_the_token(file: Path) -> None:
    asked = client(Guard(reading(admin_token_file=str(file)), local=True), "evil.example")
    asked.headers["authorization"] = f"Bearer {TOKEN}"
    assert asked.get("/metrics").status_code == 200


@pytest.mark.parametrize("page", ["/healthz", "/readyz"])
def test_health_is_told_to_everybody(file: Path, page: str) -> None:
    for guard in (Guard(reading(admin_token_file=str(file)), local=True), Guard(dict, local=True)):
        assert client(guard, "evil.example").get(page).status_code == 200


def test_a_new_token_counts_once_it_is_read(file: Path) -> None:
    guard = Guard(reading(admin_token_file=str(file)), local=True)
    asked = client(guard)
    asked.headers["authorization"] = "Bearer fedcba9876543210"
    file.write_text("fedcba9876543210")
    assert asked.get("/metrics").status_code == 401
    guard.reload()
    assert asked.get("/metrics").status_code == 200


def test_a_token_that_cannot_be_read_leaves_the_old_one(file: Path) -> None:
    guard = Guard(reading(admin_token_file=str(file)), local=True)
    file.unlink()
    with pytest.raises(SettingError):
        guard.reload()
    assert client(guard).get("/metrics").status_code == 401


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9464", "[::1]:9464", "[::1]", "localhost", "LOCALHOST.:1", "10.1.2.3", ""]
)
def test_addresses_and_localhost_are_ours(host: str) -> None:
    assert is_own(host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.x", "[x]"]
)
def test_other_names_are_somebodys(host: str) -> None:
    assert not is_own(host)


def test_on_loopback_a_name_that_somebody_pointed_here_is_refused() -> None:
    for page in PAGES:
        assert client(Guard(dict, local=True), "evil.example").get(page).status_code == 421
    assert client(Guard(dict, local=True)).get("/metrics").status_code == 200


def test_elsewhere_every_name_will_do() -> None:
    asked = client(Guard(dict, local=False), "tokometer.monitoring.svc")
    assert asked.get("/metrics").status_code == 200
