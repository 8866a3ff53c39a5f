"""Files that prove who somebody is: certificates, keys, authorities, the admin token."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from proxy.settings import SettingError

# Bundles of all public authorities have a quarter of it.
MOST_BYTES = 2**20


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
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
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
