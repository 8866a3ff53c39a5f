"""Where an upstream is, and which of the proxy's paths belong to it."""

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

EXAMPLE = "http://127.0.0.1:8000"
UNIX = "unix:"
NAME = re.compile(r"[a-z0-9_-]+")
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
VISIBLE = re.compile(r"[!-~]+")
# RFC 1035, section 2.3.4; a dot at the end counts for neither.
LONGEST_HOST, LONGEST_LABEL = 253, 63
DEFAULT_PORTS = {"http": 80, "https": 443}
PASSING = ".new"  # behind a Unix socket's path until it listens
LONGEST_PATH = 103 - len(PASSING)  # bytes, on every system


@dataclass(frozen=True)
class Upstream:
    """An inference server and the part of the proxy's paths that belongs to it.

    `host` is a name or an address (IPv6 without brackets). `base`, empty or `/like/this`, is put
    before the path of each request. `prefix` is `/` or `/like/this`: it takes that path itself
    and all below it, and is stripped. `socket` is the path of a Unix socket, empty for TCP.
    """

    name: str
    scheme: str
    host: str
    port: int
    base: str = ""
    prefix: str = "/"
    socket: str = ""

    @classmethod
    def parse(cls, name: str, url: str, prefix: str = "/") -> "Upstream":
        """From settings. Raises ValueError with what is wrong and what to give."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} will not do as a name: use a-z, 0-9, _ and -")
        if not re.fullmatch(r"(/[!-~]*)", prefix) or re.search(r"[?#]|//", prefix):
            raise ValueError(f"prefix {prefix!r} will not do: give a path such as /{name}")
        prefix = prefix.rstrip("/") or "/"
        if url.startswith(UNIX):
            return cls(name, "http", "localhost", 80, "", prefix, unix_path(url))
        parts, port = _split(url)
        host = parts.hostname or ""
        return cls(name, parts.scheme, host, port, parts.path.rstrip("/"), prefix)

    @cached_property  # each request asks
    def authority(self) -> str:
        """Host and port as in a URL and a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority as requests to it name them."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """As in the settings, without a slash at its end."""
        return f"{UNIX}{self.socket}" if self.socket else f"{self.origin}{self.base}"


def unix_path(address: str) -> str:
    """The path in `unix:/path` (or `unix:///path`). Raises ValueError with what to give."""
    path = address.removeprefix(UNIX)
    if path.startswith("///"):
        path = path[2:]
    if not path.startswith("/") or path.startswith("//") or "\0" in path:
        raise ValueError("a Unix socket needs its whole path: give unix:/run/engine.sock")
    if len(path.encode(errors="replace")) > LONGEST_PATH:
        raise ValueError(f"a Unix socket's path has at most {LONGEST_PATH} bytes: give a shorter")
    return path


def _split(url: str) -> tuple[SplitResult, int]:
    """A URL's parts and its port. Errors never quote the URL: keys stand in all parts of URLs."""
    if not VISIBLE.fullmatch(url):
        raise ValueError(f"give a URL of plain ASCII without spaces, such as {EXAMPLE}")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:  # its text quotes what it does not like
        raise ValueError(f"not a URL: give one such as {EXAMPLE}") from None
    try:
        port = parts.port
    except ValueError:
        raise ValueError("a port is a number from 1 to 65535: give one, or none") from None
    if "@" in parts.netloc:
        raise ValueError("leave user and password out of the URL: clients send their own keys")
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("no such kind of URL: give one with http://, https:// or unix:/")
    if parts.query or parts.fragment or url[-1] in "?#":
        raise ValueError("leave out ? and # and what follows: queries are the clients'")
    if not _is_host(host or "") or port == 0:
        raise ValueError(f"no usable host and port in the URL: give one such as {EXAMPLE}")
    return parts, port or DEFAULT_PORTS[parts.scheme]


def _is_host(host: str) -> bool:
    if HOST_NAME.fullmatch(host):
        name = host.removesuffix(".")
        labels = name.split(".")
        return len(name) <= LONGEST_HOST and all(0 < len(one) <= LONGEST_LABEL for one in labels)
    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False
