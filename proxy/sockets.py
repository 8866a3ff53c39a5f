"""The listening sockets: all are bound before anything is forked, so that a failure is one line."""

import contextlib
import errno
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxy.address import UNIX, unix_path
from proxy.config import Config
from proxy.settings import SettingError
from proxy.unixsocket import BACKLOG, inode, listen_unix, remove

# Linux spreads connections over the sockets of a port; elsewhere one of them would get all.
SPREADS = sys.platform == "linux"
# A Unix socket's path may have about 100 characters, which some TMPDIRs use up alone.
LONGEST_FOLDER = 70
# The private folder's name begins so; the note in it says where the admin listener is.
FOLDER = "tokometer-"
ADMIN_NOTE = "admin"


def listen(host: str, port: int, setting: str = "", beside: bool = False) -> socket.socket:
    """A listening socket; `port` counts for nothing where `host` is `unix:/path`.

    Args:
        setting: what the settings' names begin with, empty or `admin_`.
        beside: whether another process may listen there, too, which is then told to stop.

    Raises: SettingError.
    """
    if host.startswith(UNIX):
        return listen_unix(host, setting, replace=beside)
    with _explained(host, port, setting):
        return _bound(host, port, shared=beside)


def listen_shared(host: str, port: int, count: int, beside: bool = False) -> list[socket.socket]:
    """One listening socket for each of `count` processes, on the same port."""
    first = listen(host, port, beside=beside)
    if count == 1 or not SPREADS or first.family == socket.AF_UNIX:
        return [first] * count
    port = first.getsockname()[1]
    others = count - 1
    if not beside:
        # Sockets that share a port would also share it with another program's: the one that does
        # not has just shown that the port was free.
        first.close()
        others = count
    with _explained(host, port, ""):
        more = [_bound(host, port, shared=True) for _ in range(others)]
    return [first, *more] if beside else more


def _bound(host: str, port: int, shared: bool) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name that has both is more often used by clients of the older kind.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


@contextlib.contextmanager
def _explained(host: str, port: int, setting: str) -> Iterator[None]:
    """Turns the system's errors into SettingError."""
    flag = "--" + setting.replace("_", "-")
    try:
        yield
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = error.strerror if isinstance(error, OSError) else "no such name"
        raise SettingError(
            {
                errno.EADDRINUSE: f"{setting}port: {host}:{port} is in use: stop what listens "
                f"there, or choose another port with {flag}port",
                errno.EACCES: f"{setting}port: not allowed to listen on {host}:{port}: choose a "
                f"port from 1024 up with {flag}port",
            }.get(
                number or 0,
                f"{setting}host: cannot listen on {host} ({why}): give an address of this machine "
                f"with {flag}host",
            )
        ) from None


@dataclass(frozen=True)
class Sockets:
    """All listening sockets: one of `data` for each worker; `channel` is on `channel_path`.

    `address` and `admin_address` are where clients find them: a URL without a path, or
    `unix:/path`.
    """

    data: list[socket.socket]
    admin: socket.socket
    channel: socket.socket
    channel_path: str
    address: str
    admin_address: str

    def keep(self, *kept: socket.socket) -> None:
        """Closes all others: what a process does not serve it must not hold open."""
        for one in (*self.data, self.admin, self.channel):
            if one not in kept:
                one.close()


@contextlib.contextmanager
def opened(config: Config) -> Iterator[Sockets]:
    """The sockets that the settings ask for. Raises SettingError."""
    beside = config.reuse_port
    with contextlib.ExitStack() as stack:
        data = listen_shared(config.host, config.port, config.workers, beside)
        _until_the_end(stack, config.host, *data)
        admin = listen(config.admin_host, config.admin_port, "admin_", beside)
        _until_the_end(stack, config.admin_host, admin)
        folder = Path(stack.enter_context(_private_folder()))
        path = str(folder / "channel")
        channel = stack.enter_context(socket.socket(socket.AF_UNIX))
        channel.bind(path)
        channel.listen(BACKLOG)
        url = address(data[0], config.host, "https" if config.tls_cert else "http")
        admin_url = address(admin, config.admin_host)
        (folder / ADMIN_NOTE).write_text(admin_url)
        yield Sockets(data, admin, channel, path, url, admin_url)


def _until_the_end(stack: contextlib.ExitStack, host: str, *listeners: socket.socket) -> None:
    for one in listeners:
        stack.enter_context(one)
    if host.startswith(UNIX):
        stack.callback(remove, host, inode(host))


def address(listener: socket.socket, host: str, scheme: str = "http") -> str:
    """Where clients find it: a URL without a path, or `unix:/path`."""
    if listener.family == socket.AF_UNIX:
        return f"{UNIX}{unix_path(host)}"
    name, port = listener.getsockname()[:2]
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def parent_folder() -> str:
    """Where the private folders of this user's proxies are. Raises OSError if there is no place."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_FOLDER else "/tmp"


def _private_folder() -> "tempfile.TemporaryDirectory[str]":
    """Which only this user can enter, with a short path. Raises SettingError."""
    try:
        return tempfile.TemporaryDirectory(prefix=FOLDER, dir=parent_folder())
    except OSError as error:
        raise SettingError(
            f"no place for a socket ({error.strerror}): name a writable folder in TMPDIR"
        ) from None
