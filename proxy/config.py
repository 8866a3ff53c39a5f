"""Every setting of the proxy, defined once, and where their values come from.

Flags come before `TOKOMETER_*` variables, those before the TOML file, that before the default.
"""

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from proxy import tls
from proxy.address import EXAMPLE, UNIX, Upstream
from proxy.credentials import read_token
from proxy.settings import (
    Setting,
    SettingError,
    from_environment,
    from_file,
    from_flags,
    settings_of,
    unknown,
)

__all__ = ["FLAGS", "SETTINGS", "Config", "Upstream", "arranged", "load"]


def setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that is a setting; see `proxy.settings` for the metadata."""
    return field(default=default, metadata=metadata)


def _default_upstream(url: str) -> tuple[Upstream, ...]:
    return (Upstream.parse("default", url),)


@dataclass(frozen=True)
class Config:
    """The running settings. Times in seconds, sizes in bytes.

    `upstreams` has at least one member, the longest prefix first: the first that takes a path
    is the right one. `buckets` maps the names of metrics to their bucket bounds, rising.
    """

    upstreams: tuple[Upstream, ...] = setting(
        MISSING,
        name="upstream",
        unit="URL",
        parse=_default_upstream,
        help=f"inference server to stand in front of, such as {EXAMPLE}",
    )
    host: str = setting(
        "127.0.0.1",
        help="address to take requests on; 0.0.0.0 is all of IPv4, unix:/path a Unix socket",
    )
    port: int = setting(8080, least=0, most=65535, help="port to take requests on; 0: a free one")
    admin_host: str = setting(
        "127.0.0.1", help="address of metrics and health checks, or unix:/path"
    )
    admin_port: int = setting(9464, least=0, most=65535, help="their port; 0: a free one")
    workers: int = setting(1, least=1, most=256, help="processes that carry traffic")
    reuse_port: bool = setting(
        False,
        help="start beside another tokometer on the same ports, which is then told to stop: "
        "both must have this",
    )
    tls_cert: str | None = setting(
        None,
        unit="path",
        help="PEM file of the certificate to show to clients, with its chain",
    )
    tls_key: str | None = setting(None, unit="path", help="PEM file of its key, not encrypted")
    client_ca: str | None = setting(
        None, unit="path", help="PEM file of the authorities that must vouch for clients"
    )
    admin_token_file: str | None = setting(
        None,
        unit="path",
        help="file with a token that who reads metrics must bring, as bearer or password",
    )
    preserve_host: bool = setting(False, help="send the client's Host header on to the upstream")
    upstream_ca: str | None = setting(
        None,
        unit="path",
        shown="those of the system",
        help="PEM file of the authorities that vouch for https upstreams",
    )
    upstream_cert: str | None = setting(
        None, unit="path", help="PEM file of the certificate to show to https upstreams"
    )
    upstream_key: str | None = setting(None, unit="path", help="PEM file of its key, not encrypted")
    upstream_insecure: bool = setting(
        False, help="believe every https upstream, whoever it is: for tests"
    )
    connect_timeout: float = setting(
        5.0, unit="seconds", least=0.001, help="time limit on connecting to an upstream"
    )
    upstream_keepalive: float = setting(
        4.0,
        unit="seconds",
        least=0,
        help="how long an idle upstream connection is kept: less than the server keeps it",
    )
    idle_timeout: float | None = setting(
        None,
        unit="seconds",
        least=0.001,
        help="time limit on the upstream's silence during an exchange",
    )
    client_timeout: float | None = setting(
        30.0,
        unit="seconds",
        least=0.001,
        help="time limit on the head of a request, and on a client's silence in its body",
    )
    drain_seconds: float = setting(
        60.0, unit="seconds", least=0, help="how long running streams may go on after SIGTERM"
    )
    usage: Literal["inject", "observe"] = setting(
        "inject",
        help="inject: ask for token counts where the client did not, and take them out of the "
        "answer again; observe: never touch a byte",
    )
    max_inspect_bytes: int = setting(
        64 * 2**20, unit="bytes", least=0, help="larger bodies pass through without being held"
    )
    stall_seconds: float = setting(
        2.0,
        name="stall_threshold",
        unit="seconds",
        least=0.001,
        help="a longer gap between two chunks of output is a stall",
    )
    max_models: int = setting(
        100, least=1, help="values of the label model; models past them are counted as other"
    )
    log_requests: str | None = setting(
        None, unit="path", help="file that gets one line of JSON per exchange; - is standard output"
    )
    buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


CONFIG_FILE = Setting(
    "config", "config", str, None, "TOML file with settings", unit="path", shown="none"
)
SETTINGS = settings_of(Config)
FLAGS = [CONFIG_FILE, *SETTINGS]


def load(flags: Mapping[str, object], environ: Mapping[str, str]) -> Config:
    """The settings that hold: `flags` maps names of settings to raw values. Raises SettingError."""
    variables, given = from_environment(FLAGS, environ), from_flags(FLAGS, flags)
    values = variables | given
    buckets: dict[str, tuple[float, ...]] = {}
    tables: tuple[Upstream, ...] = ()
    if "config" in values:
        path = Path(values.pop("config"))
        content = _toml(path)
        tables = _upstreams(content.pop("upstreams", {}), path)
        buckets = _buckets(content.pop("buckets", {}), path)
        values = from_file(SETTINGS, content, path) | values
    upstreams = arranged(values.pop("upstreams", ()) + tables)
    return _check(Config(upstreams=upstreams, buckets=buckets, **values))


def check_loop(config: Config) -> None:
    """A proxy that is its own upstream would call itself until nothing is left.

    To be asked once the port is ours: before that the engine may be what listens there. Raises
    SettingError.
    """
    ours = {config.host, "127.0.0.1", "localhost", "::1"}
    for upstream in config.upstreams:
        if upstream.socket or config.host.startswith(UNIX):
            itself = upstream.url == config.host
        else:
            itself = upstream.port == config.port and upstream.host in ours
        if itself:
            raise SettingError(
                f"upstream: {upstream.url} is where this proxy listens itself: give the engine's "
                "address, or choose another port with --port"
            )


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingError(
            f"config: cannot read {path} ({error.strerror}): give a TOML file with --config"
        ) from None
    except ValueError as error:
        raise SettingError(
            f"config: {path} is not TOML ({error}): mend it there, or give another with --config"
        ) from None


def _upstreams(tables: object, path: Path) -> tuple[Upstream, ...]:
    """The `[upstreams.NAME]` tables."""
    if not isinstance(tables, dict):
        raise SettingError(f"upstreams in {path}: give tables such as [upstreams.fast]")
    return tuple(_upstream(name, table, path) for name, table in tables.items())


def _upstream(name: str, table: object, path: Path) -> Upstream:
    values = table if isinstance(table, dict) else {}
    for key in values:
        if key not in ("url", "prefix"):
            problem = unknown(key, ("url", "prefix"))
            raise SettingError(f"upstreams.{name}.{key} in {path}: {problem}")
    for key, example in (("url", EXAMPLE), ("prefix", f"/{name}")):
        if not isinstance(values.get(key), str):
            raise SettingError(f'upstreams.{name} in {path}: give it {key} = "{example}"')
    try:
        return Upstream.parse(name, **values)
    except ValueError as error:
        raise SettingError(f"upstreams.{name} in {path}: {error}") from None


def arranged(upstreams: tuple[Upstream, ...]) -> tuple[Upstream, ...]:
    """The longest prefix first. Raises SettingError if a name or a prefix is there twice."""
    if not upstreams:
        raise SettingError(f"no upstream: pass --upstream URL, such as --upstream {EXAMPLE}")
    for attribute in ("name", "prefix"):
        seen = [getattr(upstream, attribute) for upstream in upstreams]
        for value in seen:
            if seen.count(value) > 1:
                raise SettingError(
                    f"two upstreams have the {attribute} {value}: change one "
                    f"(the URL of --upstream has the name default and the prefix /)"
                )
    return tuple(sorted(upstreams, key=lambda upstream: len(upstream.prefix), reverse=True))


def _buckets(tables: object, path: Path) -> dict[str, tuple[float, ...]]:
    """The `[buckets]` table."""
    if not isinstance(tables, dict):
        raise SettingError(f"buckets in {path}: give a table of lists of numbers")
    return {name: _bounds(raw, f"buckets.{name} in {path}") for name, raw in tables.items()}


def _bounds(raw: object, source: str) -> tuple[float, ...]:
    numbers = raw if isinstance(raw, list) else []
    usable = all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
    if not numbers or not usable or any(a >= b for a, b in pairwise(numbers)):
        raise SettingError(f"{source}: give a list of rising numbers, such as [0.1, 0.2, 0.5]")
    return tuple(float(number) for number in numbers)


def _meet(config: Config) -> bool:
    """Whether both listeners would be in one place."""
    hosts = config.host, config.admin_host
    if any(host.startswith(UNIX) for host in hosts):
        return hosts[0] == hosts[1]
    everywhere = "0.0.0.0" in hosts or "::" in hosts
    return config.port == config.admin_port != 0 and (hosts[0] == hosts[1] or everywhere)


def _check(config: Config) -> Config:
    """Tells of what cannot be used now, not when a process that needs it starts."""
    if _meet(config):
        raise SettingError(
            "port and admin_port are the same: give them different numbers, with --port or "
            "--admin-port (Unix sockets: different paths)"
        )
    tls.check(config.tls_cert, config.tls_key, config.client_ca)
    tls.check_upstream(
        config.upstream_ca, config.upstream_cert, config.upstream_key, config.upstream_insecure
    )
    if config.admin_token_file is not None:
        read_token(config.admin_token_file)
    log = config.log_requests
    if log not in (None, "-"):
        written = Path(log) if Path(log).exists() else Path(log).parent
        if Path(log).is_dir() or not os.access(written, os.W_OK):
            raise SettingError(
                f"log_requests: cannot write {log}: give a file in a writable folder with "
                "--log-requests"
            )
    return config
