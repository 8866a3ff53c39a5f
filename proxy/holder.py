"""What the supervisor holds for its children: the files that it read at the start and on SIGHUP.

A child that is started later gets what the others have, whatever has become of the files.
"""

import base64
import json
from collections.abc import Callable, Mapping

from proxy.credentials import token
from proxy.notices import say
from proxy.papers import MOST_BYTES, Paper, Papers, read
from proxy.settings import SettingError
from proxy.shared import Shared
from proxy.tls import connecting, listening

# Settings whose files change together, and what finds out whether they will do.
_KINDS: dict[tuple[str, ...], Callable[[Papers], object]] = {
    ("tls_cert", "tls_key", "client_ca"): lambda papers: listening(lambda: papers),
    ("upstream_ca", "upstream_cert", "upstream_key"): lambda papers: connecting(lambda: papers),
    ("admin_token_file",): token,
}
_ROOM = 2 * MOST_BYTES * sum(map(len, _KINDS))  # they are written as base64, with their paths


class Holder:
    """Reads the files at `paths`, by name of their setting. Raises SettingError."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self._shared = Shared(_ROOM)
        self._papers: dict[str, Paper] = {}
        for kind in _KINDS:
            self._papers |= self._read(kind)
        self._share()

    def reload(self) -> None:
        """Read them again, in the supervisor. Of a kind that will not do the old ones stay."""
        for kind in _KINDS:
            try:
                self._papers |= self._read(kind)
            except SettingError as problem:
                say(f"nothing new is taken: {problem}")
        self._share()

    def now(self) -> Papers:
        """What counts, in any process."""
        # While it is being written SIGHUP is still to come, and asks again.
        if (content := self._shared.read()) is not None:
            self._papers = {
                setting: Paper(path, base64.b64decode(text))
                for setting, (path, text) in json.loads(content).items()
            }
        return self._papers

    def _read(self, kind: tuple[str, ...]) -> dict[str, Paper]:
        found = read({name: self._paths[name] for name in kind if name in self._paths})
        if found:
            _KINDS[kind](found)
        return found

    def _share(self) -> None:
        content = {
            setting: (paper.path, base64.b64encode(paper.text).decode())
            for setting, paper in self._papers.items()
        }
        self._shared.write(json.dumps(content).encode())
