import dataclasses
from pathlib import Path

import pytest

from proxy.config import SETTINGS, Config, Upstream, check_loop, load
from proxy.origin import Secret
from proxy.settings import Setting, SettingError

URL = {"upstream": "http://127.0.0.1:8000"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokometer.toml"


def refused(flags: dict[str, object], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingError) as refusal:
        load(flags, environ or {})
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def refused_file(file: Path, text: str) -> str:
    file.write_text(text)
    return refused({**URL, "config": str(file)})


def test_the_defaults_are_those_of_the_contract() -> None:
    config = load(URL, {})
    assert config == Config(upstreams=(Upstream("default", "http", "127.0.0.1", 8000),))
    assert (config.host, config.port) == ("127.0.0.1", 8080)
    assert (config.admin_host, config.admin_port) == ("127.0.0.1", 9464)
    assert (config.workers, config.preserve_host, config.usage) == (1, False, "inject")
    assert (config.max_inspect_bytes, config.max_models) == (67_108_864, 100)
    assert (config.connect_timeout, config.upstream_keepalive) == (5, 4)
    assert (config.idle_timeout, config.drain_seconds, config.stall_seconds) == (None, 60, 2)
    assert (config.log_requests, config.upstream_ca, config.buckets) == (None, None, {})


def test_flags_come_before_variables_before_the_file_before_the_default(file: Path) -> None:
    file.write_text("port = 1\nworkers = 1\nmax_models = 1\n")
    flags: dict[str, object] = {**URL, "config": str(file), "port": "3"}
    environ = {"TOKOMETER_PORT": "2", "TOKOMETER_WORKERS": "2"}
    config = load(flags, environ)
    assert (config.port, config.workers, config.max_models) == (3, 2, 1)
    assert config.drain_seconds == 60


def test_the_file_can_be_named_by_a_variable(file: Path) -> None:
    file.write_text('upstream = "http://host:1"')
    assert load({}, {"TOKOMETER_CONFIG": str(file)}).upstreams[0].port == 1


def test_no_upstream_is_one_line_that_says_what_to_pass() -> None:
    assert "pass --upstream URL" in refused({})


DEFAULTS = [one for one in SETTINGS if one.default not in (None, dataclasses.MISSING)]


@pytest.mark.parametrize("setting", DEFAULTS, ids=lambda one: one.name)
def test_every_default_is_a_value_that_can_be_given(setting: Setting) -> None:
    assert setting.value(setting.default, "default") == setting.default


def test_every_field_can_be_set_or_is_a_table_of_the_file() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    tables = {"buckets", "scouting", "user_secret", "dials", "objectives"}
    assert fields - {one.field for one in SETTINGS} == tables


def test_a_bad_url_is_named_by_where_it_came_from(file: Path) -> None:
    assert refused({"upstream": "host"}).startswith("flag --upstream: ")
    environ = {"TOKOMETER_UPSTREAM": "host"}
    assert refused({}, environ).startswith("environment variable TOKOMETER_UPSTREAM: ")
    assert refused_file(file, 'upstream = "host"').startswith(f"upstream in {file}: ")


def test_upstreams_of_the_file_are_tried_longest_prefix_first(file: Path) -> None:
    file.write_text(
        '[upstreams.a]\nurl = "http://a"\nprefix = "/a"\n'
        '[upstreams.ab]\nurl = "https://ab/v1"\nprefix = "/a/b/"\n'
    )
    config = load({**URL, "config": str(file)}, {})
    assert [(one.name, one.prefix) for one in config.upstreams] == [
        ("ab", "/a/b"),
        ("a", "/a"),
        ("default", "/"),
    ]


def test_upstreams_of_the_file_are_enough(file: Path) -> None:
    file.write_text('[upstreams.a]\nurl = "http://a"\nprefix = "/"\n')
    assert load({"config": str(file)}, {}).upstreams == (Upstream("a", "http", "a", 80),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('upstreams.a.prefix = "/a"', 'upstreams.a in FILE: give it url = "http://127.0.0.1:8000"'),
        ('upstreams.a.url = "http://a"', 'upstreams.a in FILE: give it prefix = "/a"'),
        ("upstreams.a = 1", 'upstreams.a in FILE: give it url = "http://127.0.0.1:8000"'),
        ("upstreams = 1", "upstreams in FILE: give tables such as [upstreams.fast]"),
        (
            'upstreams.a = {url = "http://a", prefx = "/a"}',
            "upstreams.a.prefx in FILE: no such setting: did you mean prefix?",
        ),
        (
            'upstreams.A = {url = "http://a", prefix = "/a"}',
            "upstreams.A in FILE: 'A' will not do as a name: use a-z, 0-9, _ and -",
        ),
        (
            'upstreams.a = {url = "http://a", prefix = "/"}',
            "two upstreams have the prefix /: change one "
            "(the URL of --upstream has the name default and the prefix /)",
        ),
        (
            'upstreams.default = {url = "http://a", prefix = "/a"}',
            "two upstreams have the name default: change one "
            "(the URL of --upstream has the name default and the prefix /)",
        ),
    ],
)
def test_an_unusable_upstream_is_one_line(file: Path, text: str, said: str) -> None:
    assert refused_file(file, text) == said.replace("FILE", str(file))


def test_buckets_are_rising_lists_of_numbers_by_metric(file: Path) -> None:
    file.write_text("[buckets]\na = [0.1, 1]\nb = [5]\n")
    config = load({**URL, "config": str(file)}, {})
    assert config.buckets == {"a": (0.1, 1.0), "b": (5.0,)}


@pytest.mark.parametrize("bounds", ["[]", "1", "[1, 1]", "[2, 1]", '["1"]', "[true]", "[1, inf]"])
def test_unusable_buckets_are_one_line(file: Path, bounds: str) -> None:
    assert refused_file(file, f"buckets.a = {bounds}") == (
        f"buckets.a in {file}: give a list of rising numbers, such as [0.1, 0.2, 0.5]"
    )


def test_a_table_of_another_kind_is_not_buckets(file: Path) -> None:
    assert refused_file(file, "buckets = 1") == (
        f"buckets in {file}: give a table of lists of numbers"
    )


def test_an_unknown_key_is_refused_with_the_nearest_known(file: Path) -> None:
    said = refused_file(file, "max_model = 5")
    assert said == f"max_model in {file}: no such setting: did you mean max_models?"


def test_the_file_cannot_name_another_file(file: Path) -> None:
    assert refused_file(file, 'config = "x"').startswith(f"config in {file}: no such setting")


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    said = refused({**URL, "config": str(file)})
    assert said == (
        f"config: cannot read {file} (No such file or directory): give a TOML file with --config"
    )


@pytest.mark.parametrize("content", [b"port 1", b"port = 1\nport = 2", b"\xff"])
def test_a_file_that_is_not_toml_is_named(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert refused({**URL, "config": str(file)}).startswith(f"config: {file} is not TOML (")


def test_files_that_prove_who_somebody_is_are_named_by_their_settings() -> None:
    assert load(URL, {}).papers == {}
    given = {"tls_cert": "a", "tls_key": "b", "client_ca": "c", "admin_token_file": "d"}
    given |= {"upstream_ca": "e", "upstream_cert": "f", "upstream_key": "g"}
    assert load({**URL, **given}, {}).papers == given


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"port": "9464"}, True),
        ({"port": "7", "admin_port": "7"}, True),
        ({"port": "7", "admin_port": "7", "host": "0.0.0.0"}, True),
        ({"port": "7", "admin_port": "7", "admin_host": "127.0.0.2"}, False),
        ({"port": "0", "admin_port": "0"}, False),
        ({"host": "unix:/a", "admin_host": "unix:/a"}, True),
        ({"host": "unix:/a", "admin_host": "unix:/b", "port": "9464"}, False),
    ],
)
def test_both_listeners_in_one_place_are_named_as_such(given: dict[str, str], same: bool) -> None:
    if same:
        assert refused({**URL, **given}).startswith("port and admin_port are the same: give")
    else:
        load({**URL, **given}, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_key": "k"}, "tls_key does nothing alone: give the certificate with --tls-cert"),
        ({"client_ca": "c"}, "client_ca does nothing alone: give the certificate with --tls-cert"),
        (
            {"upstream_key": "k"},
            "upstream_key does nothing alone: give the certificate with --upstream-cert",
        ),
        (
            {"upstream_insecure": "on", "upstream_ca": "c"},
            "upstream_insecure believes everybody, upstream_ca does not: leave one of them out",
        ),
    ],
)
def test_settings_that_make_no_sense_together_are_told(given: dict[str, str], said: str) -> None:
    assert refused({**URL, **given}) == said


def test_a_request_log_needs_a_folder_that_is_there(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "log", tmp_path):
        assert refused({**URL, "log_requests": str(path)}) == (
            f"log_requests: cannot write {path}: give a file in a writable folder with "
            "--log-requests"
        )
    assert load({**URL, "log_requests": str(tmp_path / "log")}, {}).log_requests
    assert load({**URL, "log_requests": "-"}, {}).log_requests == "-"
    assert load({**URL, "log_requests": "off"}, {}).log_requests is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:8080/v1"])
def test_a_proxy_that_is_its_own_upstream_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="listens itself"):
        check_loop(load({"upstream": url}, {}))
    check_loop(load({"upstream": url, "port": "8081"}, {}))


@pytest.mark.parametrize("name", ["user_from", "task_from"])
def test_a_source_is_checked_when_settings_are_read(name: str) -> None:
    said = refused({**URL, name: "header:"})
    assert said.startswith(f"flag --{name.replace('_', '-')}: 'header:' will not do: give header:")


def test_users_are_off_and_tasks_go_by_traceparent() -> None:
    config = load(URL, {})
    assert (config.user_from, config.max_users) == (None, 200)
    assert (config.task_from, config.task_quiet) == ("traceparent", 60)
    off = load({**URL, "task_from": "off", "user_from": "header:X-User"}, {})
    assert (off.task_from, off.user_from) == (None, "header:x-user")


def test_the_secret_of_users_comes_from_the_environment_alone(file: Path) -> None:
    config = load(URL, {"TOKOMETER_USER_SECRET": "0123456789abcdef"})
    assert config.user_secret.pseudonym("key") == Secret(b"0123456789abcdef").pseudonym("key")
    assert "0123456789abcdef" not in repr(config)
    assert not load(URL, {"TOKOMETER_USER_SECRET": ""}).user_secret
    assert refused_file(file, 'user_secret = "0123456789abcdef"').startswith(
        f"user_secret in {file}: no such setting"
    )


def test_a_secret_that_could_be_guessed_is_refused_without_being_said() -> None:
    said = refused({**URL}, {"TOKOMETER_USER_SECRET": "hunter2"})
    assert said.startswith("environment variable TOKOMETER_USER_SECRET: too short")
    assert "hunter2" not in said


def test_a_collector_is_a_url_or_what_the_environment_names() -> None:
    assert load(URL, {}).otlp_endpoint is None
    given = {"http://c:4318/": "http://c:4318", "https://c/otlp": "https://c/otlp", "env": "env"}
    for text, endpoint in given.items():
        assert load({**URL, "otlp_endpoint": text}, {}).otlp_endpoint == endpoint
    assert load(URL, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}).otlp_endpoint is None
    for text in ("c:4318", "grpc://c:4317", "http://", "", "unix:/run/c", "http://c/v1/metrics"):
        assert refused({**URL, "otlp_endpoint": text}).startswith("flag --otlp-endpoint: ")
    said = refused({**URL, "otlp_endpoint": "http://ann:secret@c"})
    assert "OTEL_EXPORTER_OTLP_HEADERS" in said
    assert "secret" not in said


def test_a_proxy_on_a_unix_socket_can_be_its_own_upstream_too() -> None:
    with pytest.raises(SettingError, match="listens itself"):
        check_loop(load({"upstream": "unix:/run/a", "host": "unix:/run/a"}, {}))
    check_loop(load({"upstream": "unix:/run/b", "host": "unix:/run/a"}, {}))
    check_loop(load({"upstream": "http://127.0.0.1:8080", "host": "unix:/run/a"}, {}))
