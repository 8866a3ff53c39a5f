"""Listening Unix sockets: made, told from what another process left behind, taken away again."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from proxy.address import PASSING, unix_path
from proxy.settings import SettingError

# The kernel lowers it to what it allows.
BACKLOG = 4096


def listen_unix(address: str, setting: str = "", replace: bool = False) -> socket.socket:
    """A listening socket at `unix:/path`; the umask says who may connect.

    Args:
        setting: what the settings' names begin with, empty or `admin_`.
        replace: take the path over from a process that still listens there.

    Raises: SettingError.
    """
    name, flag = f"{setting}host", "--" + setting.replace("_", "-") + "host"
    try:
        path = unix_path(address)
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from None
    if Path(path).exists() and not _is_socket(path):
        raise SettingError(f"{name}: {path} is no socket: give another path with {flag}")
    if not replace and _is_served(path):
        raise SettingError(
            f"{name}: {path} is in use: stop what listens there, or choose another path with {flag}"
        )
    try:
        return _bound(path)
    except OSError as error:
        raise SettingError(
            f"{name}: cannot listen on {path} ({os.strerror(error.errno or 0)}): give a path in a "
            f"writable folder with {flag}"
        ) from None


def remove(address: str, own: int | None) -> None:
    """Takes the path away, unless it is another process's by now."""
    if own is not None and inode(address) == own:
        with contextlib.suppress(OSError):
            os.unlink(unix_path(address))


def inode(address: str) -> int | None:
    """Which file it is; None if there is none."""
    try:
        return os.stat(unix_path(address)).st_ino
    except OSError:
        return None


def _bound(path: str) -> socket.socket:
    """Listens before it has its name: at no time is there a path that refuses."""
    passing = path + PASSING
    bound = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(passing)
        bound.bind(passing)
        bound.listen(BACKLOG)
        os.rename(passing, path)
    except OSError:
        bound.close()
        raise
    return bound


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _is_served(path: str) -> bool:
    """Whether somebody listens; a path that a killed process left behind refuses."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ECONNREFUSED)
    return True
