"""Whether a proxy is well, as its admin listener says: for health checks without curl."""

import contextlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from proxy.address import UNIX, unix_path
from proxy.settings import SettingError
from proxy.sockets import ADMIN_NOTE, FOLDER, parent_folder

_SECONDS = 2.0
_WELL = b"HTTP/1.1 200 "


@dataclass(frozen=True)
class HealthSettings:
    """Whom to ask, and what."""

    admin: str | None = field(
        default=None,
        metadata={
            "unit": "URL",
            "shown": "the proxy of this user that started last",
            "help": "its admin listener, such as http://127.0.0.1:9464 or unix:/path",
        },
    )
    ready: bool = field(
        default=False, metadata={"help": "whether it takes requests, not only whether it is there"}
    )


def check(settings: HealthSettings) -> tuple[bool, str]:
    """Whether all is well, and that in a line. Raises SettingError if there is nobody to ask."""
    admin = settings.admin or noted()
    path = "/readyz" if settings.ready else "/healthz"
    status = _ask(admin, path)
    if status is None:
        return False, f"{admin}: cannot be reached"
    if status.startswith(_WELL):
        return True, f"{admin}: {'ready' if settings.ready else 'healthy'}"
    return False, f"{admin}: {path} does not answer 200"


def noted() -> str:
    """Where the admin listener of the newest proxy is that this user runs. Raises SettingError."""
    found = []
    for folder in Path(parent_folder()).glob(f"{FOLDER}*"):
        note = folder / ADMIN_NOTE
        with contextlib.suppress(OSError, UnicodeError):  # gone by now
            # Everybody may put folders and links into the folder of all.
            if all(one.lstat().st_uid == os.getuid() for one in (folder, note)):
                found.append((note.lstat().st_mtime, note.read_text("utf-8")))
    if not found:
        raise SettingError("no proxy of this user is running: name one with --admin URL")
    return max(found)[1]


def answers(admin: str, path: str) -> bool:
    """Whether an admin listener (`http://host:port` or `unix:/path`) answers 200.

    Raises SettingError if that is no address.
    """
    return (_ask(admin, path) or b"").startswith(_WELL)


def _ask(admin: str, path: str) -> bytes | None:
    """How its answer begins; None if there is none."""
    family, address = _address(admin)
    try:
        with socket.socket(family) as client:
            client.settimeout(_SECONDS)
            client.connect(address)
            ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            client.sendall(ask.encode("ascii"))
            return client.recv(64)
    except OSError:
        return None


def _address(admin: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    try:
        if admin.startswith(UNIX):
            return socket.AF_UNIX, unix_path(admin)
        parts = urlsplit(admin)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme != "http" or port is None:
        raise SettingError("admin: no such address: give one such as http://127.0.0.1:9464")
    return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, port)
