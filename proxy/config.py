"""Every setting of the proxy, defined once, and where their values come from.

Flags come before `TOKOMETER_*` variables, those before the TOML file, that before the default.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal

from proxy import dials, objectives, scouting, tables, tls
from proxy.address import EXAMPLE, UNIX, Upstream
from proxy.dials import NO_DIALS, DialTable
from proxy.layers import Layer, laid
from proxy.objectives import NO_OBJECTIVES, ObjectiveTable
from proxy.origin import TRACEPARENT, Secret, task_source, user_source
from proxy.roofline import WAYS
from proxy.scouting import Scouting
from proxy.settings import (
    Setting,
    SettingError,
    from_environment,
    from_file,
    from_flags,
    settings_of,
)

__all__ = ["FLAGS", "SETTINGS", "Config", "Upstream", "arranged", "load"]


def setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that is a setting; see `proxy.settings` for the metadata."""
    return field(default=default, metadata=metadata)


def _default_upstream(url: str) -> tuple[Upstream, ...]:
    return (Upstream.parse("default", url),)


ENVIRONMENT = "env"  # instead of a collector's URL


def _collector(url: str) -> str:
    if url == ENVIRONMENT:
        return url
    if "@" in url:
        raise ValueError(
            "leave user and password out of the URL: OTEL_EXPORTER_OTLP_HEADERS is for them"
        )
    collector = Upstream.parse("otlp", url)
    if collector.socket:
        raise ValueError("a collector has no Unix socket: give one such as http://127.0.0.1:4318")
    if collector.base.endswith(("/v1/metrics", "/v1/traces")):
        raise ValueError(f"leave {collector.base[-11:].lstrip('s')} out: both paths are added")
    return collector.url


@dataclass(frozen=True)
class Config:
    """The running settings. Times in seconds, sizes in bytes.

    `upstreams` has at least one member, the longest prefix first: the first that takes a path
    is the right one. `buckets` maps the names of metrics to their bucket bounds, rising,
    `scouting` names of upstreams to what is asked of them where that is not the default.
    `dials` and `objectives` are what is said of models. `user_secret` is what API keys are hashed
    with.
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
        help="start beside another tokometer on the same ports, which hands over when it gets "
        "SIGTERM: both must have this",
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
    send_timeout: float | None = setting(
        300.0,
        unit="seconds",
        least=0.001,
        help="time limit on a client that takes nothing of its answer while that waits for it",
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
    user_from: str | None = setting(
        None,
        unit="source",
        parse=user_source,
        help="where the label user comes from: header:NAME, body:user, or api-key, which becomes a "
        "hash with the key in TOKOMETER_USER_SECRET",
    )
    max_users: int = setting(
        200, least=1, help="values of the label user; users past them are counted as other"
    )
    task_from: str | None = setting(
        TRACEPARENT,
        unit="source",
        parse=task_source,
        help="what the calls of a task share: traceparent (its trace id), header:NAME, or off",
    )
    task_quiet: float = setting(
        60.0,
        unit="seconds",
        least=0.001,
        help="a task is over when nothing of it has been in flight for so long",
    )
    log_requests: str | None = setting(
        None, unit="path", help="file that gets one line of JSON per exchange; - is standard output"
    )
    otlp_endpoint: str | None = setting(
        None,
        unit="URL",
        parse=_collector,
        help="OpenTelemetry collector that gets metrics and spans by OTLP over HTTP, such as "
        "http://127.0.0.1:4318, or env: the one that OTEL_EXPORTER_OTLP_ENDPOINT names",
    )
    buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    scouting: Mapping[str, Scouting] = field(default_factory=dict, compare=False)
    dials: DialTable = NO_DIALS
    objectives: ObjectiveTable = NO_OBJECTIVES
    user_secret: Secret = field(default_factory=Secret, compare=False)

    @property
    def papers(self) -> dict[str, str]:
        """Paths of the files that prove who somebody is, by setting."""
        found = {
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
            "client_ca": self.client_ca,
            "upstream_ca": self.upstream_ca,
            "upstream_cert": self.upstream_cert,
            "upstream_key": self.upstream_key,
            "admin_token_file": self.admin_token_file,
        }
        return {name: path for name, path in found.items() if path is not None}

    def scouting_of(self, upstream: str) -> Scouting:
        """What is asked of this upstream beside its traffic."""
        return self.scouting.get(upstream, Scouting())

    @property
    def scouted(self) -> bool:
        """Whether anything is asked of any upstream beside its traffic."""
        return any(self.scouting_of(upstream.name).wanted for upstream in self.upstreams)


# Not a setting: it must stand in no file, no list of processes, and on no page of settings.
SECRET_VARIABLE = "TOKOMETER_USER_SECRET"
_FEWEST_SECRET_CHARACTERS = 16

CONFIG_FILE = Setting(
    "config", "config", str, None, "TOML file with settings", unit="path", shown="none"
)
SETTINGS = [
    *settings_of(Config),
    *scouting.SETTINGS,
    *dials.SETTINGS,
    *objectives.SETTINGS,
]
_IN_TABLES = dials.FIELDS | objectives.FIELDS
FLAGS = [CONFIG_FILE, *SETTINGS]


def load(flags: Mapping[str, object], environ: Mapping[str, str]) -> Config:
    """The settings that hold: `flags` maps names of settings to raw values. Raises SettingError."""
    hidden = {SECRET_VARIABLE, *filter(scouting.is_key, environ)}
    variables = {name: text for name, text in environ.items() if name not in hidden}
    layers = [from_environment(FLAGS, variables), from_flags(FLAGS, flags)]
    values = layers[0] | layers[1]
    of_file = tables.Tables()
    if "config" in values:
        path = Path(values.pop("config"))
        content = tables.read(path)
        of_file = tables.taken(content, path)
        layers.insert(0, from_file(SETTINGS, content, path))
        values = layers[0] | values
    upstreams = arranged(values.pop("upstreams", ()) + of_file.upstreams)
    asked = {name: values.pop(name) for name in scouting.FIELDS & values.keys()}
    names = [upstream.name for upstream in upstreams]
    config = Config(
        upstreams=upstreams,
        buckets=of_file.buckets,
        scouting=scouting.by_upstream(names, asked, of_file.scouting, environ),
        user_secret=_secret(environ.get(SECRET_VARIABLE, "")),
        dials=_dials(layers, of_file, names),
        objectives=_objectives(layers, of_file),
        **{name: value for name, value in values.items() if name not in _IN_TABLES},
    )
    _check(config)
    return config


def _dials(layers: Sequence[Layer], of_file: tables.Tables, upstreams: Sequence[str]) -> DialTable:
    everywhere = laid(WAYS, *(_only(dials.FIELDS, layer) for layer in layers))
    table = DialTable(everywhere, of_file.dials, of_file.model_dials)
    table.check(upstreams)
    return table


def _objectives(layers: Sequence[Layer], of_file: tables.Tables) -> ObjectiveTable:
    everywhere, models = of_file.objectives
    general = [_only(objectives.FIELDS, layer) for layer in layers]
    for name in sorted(general[-3] & everywhere.keys()) if everywhere else ():
        raise SettingError(
            f"objective_{name} and {name} of [objectives] in the file are the same: leave one out"
        )
    # The file's table stands beside the file's own keys, below variables and flags.
    table = ObjectiveTable(laid(objectives.WAYS, *general[:-2], everywhere, *general[-2:]), models)
    table.check()
    return table


def _only(fields: Collection[str], layer: Layer) -> dict[str, Any]:
    return {name: value for name, value in layer.items() if name in fields}


def _secret(text: str) -> Secret:
    if text and len(text) < _FEWEST_SECRET_CHARACTERS:
        raise SettingError(
            f"environment variable {SECRET_VARIABLE}: too short to be a secret: give at least "
            f"{_FEWEST_SECRET_CHARACTERS} characters, such as those of openssl rand -hex 32"
        )
    return Secret(text.encode("utf-8", "surrogateescape"))


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


def _meet(config: Config) -> bool:
    """Whether both listeners would be in one place."""
    hosts = config.host, config.admin_host
    if any(host.startswith(UNIX) for host in hosts):
        return hosts[0] == hosts[1]
    everywhere = "0.0.0.0" in hosts or "::" in hosts
    return config.port == config.admin_port != 0 and (hosts[0] == hosts[1] or everywhere)


def _check(config: Config) -> None:
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
    log = config.log_requests
    if log not in (None, "-"):
        written = Path(log) if Path(log).exists() else Path(log).parent
        if Path(log).is_dir() or not os.access(written, os.W_OK):
            raise SettingError(
                f"log_requests: cannot write {log}: give a file in a writable folder with "
                "--log-requests"
            )
