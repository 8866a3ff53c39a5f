"""Where an upstream is, and which of the proxy's paths belong to it."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

EXAMPLE = "http://127.0.0.1:8000"
NAME = re.compile(r"[a-z0-9_-]+")
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
VISIBLE = re.compile(r"[!-~]+")
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Upstream:
    """An inference server and the part of the proxy's paths that belongs to it.

    `host` is a name or an address (IPv6 without brackets). `base`, empty or `/like/this`, is put
    before the path of each request. `prefix` is `/` or `/like/this`: it takes that path itself
    and all below it, and is stripped.
    """

    name: str
    scheme: str
    host: str
    port: int
    base: str = ""
    prefix: str = "/"

    @classmethod
    def parse(cls, name: str, url: str, prefix: str = "/") -> "Upstream":
        """From settings. Raises ValueError with what is wrong and what to give."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} will not do as a name: use a-z, 0-9, _ and -")
        if not re.fullmatch(r"(/[!-~]*)", prefix) or re.search(r"[?#]|//", prefix):
            raise ValueError(f"prefix {prefix!r} will not do: give a path such as /{name}")
        parts, port = _split(url)
        host = parts.hostname or ""
        base = parts.path.rstrip("/")
        return cls(name, parts.scheme, host, port, base, prefix.rstrip("/") or "/")

    @property
    def authority(self) -> str:
        """Host and port as in a URL and a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"{self.scheme}://{self.authority}{self.base}"


def _split(url: str) -> tuple[SplitResult, int]:
    """A URL's parts and its port. The URL is not quoted in errors where it may hold a password."""
    if not VISIBLE.fullmatch(url):
        raise ValueError(f"give a URL of plain ASCII without spaces, such as {EXAMPLE}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a URL ({error}): give one such as {EXAMPLE}") from None
    if "@" in parts.netloc:
        raise ValueError("leave user and password out of the URL: clients send their own keys")
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError(f"{url!r} will not do: give a URL with http:// or https://")
    if parts.query or parts.fragment or url[-1] in "?#":
        raise ValueError(f"{url!r} will not do: leave out ? and # and what follows")
    if not _is_host(parts.hostname or "") or port == 0:
        raise ValueError(f"{url!r} has no usable host and port: give a URL such as {EXAMPLE}")
    return parts, port or DEFAULT_PORTS[parts.scheme]


def _is_host(host: str) -> bool:
    if HOST_NAME.fullmatch(host):
        return True
    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False
