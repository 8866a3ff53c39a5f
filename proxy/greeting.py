"""What the proxy says of itself when it starts: where it is, and what is unsafe about it."""

import ipaddress

from proxy.address import UNIX
from proxy.config import Config
from proxy.sockets import Sockets


def greeting(config: Config, sockets: Sockets) -> str:
    """Where clients go, where that leads, where metrics are."""
    targets = [
        upstream.url if upstream.prefix == "/" else f"{upstream.prefix} {upstream.url}"
        for upstream in config.upstreams
    ]
    metrics = sockets.admin_address
    metrics += " /metrics" if metrics.startswith(UNIX) else "/metrics"
    return f"{sockets.address} -> {', '.join(targets)} · metrics {metrics}"


def warnings(config: Config) -> list[str]:
    """Settings that somebody may regret, a line each."""
    found = []
    if config.upstream_insecure:
        found.append(
            "upstream_insecure: NO CERTIFICATE OF AN UPSTREAM IS CHECKED: who sits between reads "
            "every key and prompt; leave --upstream-insecure out, or give --upstream-ca"
        )
    if not is_loopback(config.admin_host) and config.admin_token_file is None:
        found.append(
            f"admin_host: metrics are open to everybody who reaches {config.admin_host}: "
            "give --admin-token-file, or listen on 127.0.0.1"
        )
    found += [
        f"upstream {upstream.name}: what clients ask for comes behind its path, such as "
        f"{upstream.base}/v1/models: leave /v1 out of the URL if they ask for /v1/... themselves"
        for upstream in config.upstreams
        if upstream.base.endswith("/v1")
    ]
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine gets there."""
    if host.startswith(UNIX) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
