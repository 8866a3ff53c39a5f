"""Files that prove who somebody is: certificates, keys, authorities, the admin token."""

import errno
import os
import select
from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.settings import SettingError

# Bundles of all public authorities have a quarter of it.
MOST_BYTES = 2**20
# For the other end of a pipe to write; whoever reads has processes to look after.
_PIPE_SECONDS = 5


class Paper(NamedTuple):
    """What was in a file; the path is for messages."""

    path: str
    text: bytes


Papers = Mapping[str, Paper]  # by name of the setting that names the file
Read = Callable[[], Papers]  # gives those that count now


def read(paths: Mapping[str, str]) -> dict[str, Paper]:
    """The files at `paths`, which are by name of the setting. Raises SettingError."""
    return {setting: Paper(path, _text(setting, path)) for setting, path in paths.items()}


def _text(setting: str, path: str) -> bytes:
    flag = "--" + setting.replace("_", "-")
    try:
        text = content(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        kind = "file" if setting == "admin_token_file" else "PEM file"
        raise SettingError(
            f"{setting}: cannot read {path} ({why}): give a {kind} with {flag}"
        ) from None
    if len(text) > MOST_BYTES:
        raise SettingError(
            f"{setting}: {path} has more than 1 MiB: give a smaller file with {flag}"
        )
    return text


def content(path: str) -> bytes:
    """What is in a file, of more than `MOST_BYTES` the beginning. It may be a pipe.

    Raises: OSError; ValueError for what is no path.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for who writes to a pipe
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        read = b""
        while len(read) <= MOST_BYTES:
            if not poll.poll(_PIPE_SECONDS * 1000):
                raise OSError(errno.ETIMEDOUT, f"a pipe that gave nothing in {_PIPE_SECONDS} s")
            piece = os.read(fd, MOST_BYTES + 1 - len(read))
            if not piece:
                break
            read += piece
        return read
    finally:
        os.close(fd)
