"""What is asked of each upstream beside its clients' traffic: settings, and keys to ask with.

Each of these settings holds for all upstreams, and can be another one in the file's table of an
upstream. Keys come from the environment alone, and each goes to the one upstream that it is for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from proxy.settings import SettingError, settings_of

VARIABLE = "TOKOMETER_CANARY_KEY"
_HEADER_VALUE = re.compile(r"[!-~]+( [!-~]+)*")


def _setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that is a setting; see `proxy.settings` for the metadata."""
    return field(default=default, metadata=metadata)


class Key:
    """A key that nothing prints or writes by accident; false where there is none."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Key(...)"

    def reveal(self) -> str:
        """The key itself, for the header that it goes into."""
        return self._text


@dataclass(frozen=True)
class Scouting:
    """The settings of one upstream; times in seconds."""

    probe_interval: float | None = _setting(
        15.0, unit="seconds", least=1, help="how often each upstream is asked whether it is well"
    )
    probe: Literal["auto", "ask", "connect"] = _setting(
        "auto",
        help="ask: a GET, and now and then engine, version and models; connect: nothing is sent, "
        "which wakes no server that sleeps; auto: ask over http, connect over https",
    )
    canary_interval: float | None = _setting(
        None,
        unit="seconds",
        least=1,
        help="how often a fixed prompt is sent to each upstream; it costs tokens",
    )
    canary_model: str | None = _setting(
        None, shown="the first that the upstream lists", help="model that the canary asks"
    )
    canary_api: Literal["auto", "chat", "ollama_chat", "messages", "completions"] = _setting(
        "auto", help="interface that the canary uses; auto: the first that works"
    )
    canary_max_tokens: int = _setting(
        64, least=2, most=4096, help="output tokens of a canary, at most"
    )
    key: Key = field(default_factory=Key)

    def asks(self, scheme: str) -> bool:
        """Whether probes of an upstream with this scheme send requests."""
        return self.probe == "ask" or (self.probe == "auto" and scheme == "http")

    @property
    def wanted(self) -> bool:
        """Whether anything is to be done at all."""
        return self.probe_interval is not None or self.canary_interval is not None


SETTINGS = settings_of(Scouting)
FIELDS = {setting.field for setting in SETTINGS}


def by_upstream(
    names: Sequence[str],
    all_of_them: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str],
) -> dict[str, Scouting]:
    """The settings of each upstream.

    Args:
        all_of_them: values by field that hold where the upstream's table has no other.
        tables: values by field, by name of the upstream.
    Raises: SettingError, for keys that belong to no upstream or to several.
    """
    given = keys(names, environ)
    general = Scouting(**all_of_them)
    return {
        name: replace(general, **tables.get(name, {}), key=given.get(name, Key())) for name in names
    }


def is_key(variable: str) -> bool:
    """Whether an environment variable is for `keys`."""
    return variable == VARIABLE or variable.startswith(f"{VARIABLE}_")


def keys(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, Key]:
    """Keys by upstream: `TOKOMETER_CANARY_KEY` of the only one, `TOKOMETER_CANARY_KEY_NAME`."""
    owners: dict[str, list[str]] = {VARIABLE: list(names)}
    for name in names:
        owners.setdefault(f"{VARIABLE}_{name.upper().replace('-', '_')}", []).append(name)
    found = {}
    for variable, text in environ.items():
        if not is_key(variable) or not text:
            continue
        match owners.get(variable, []):
            case [name]:
                found[name] = Key(_checked(text, variable))
            case []:
                raise SettingError(f"environment variable {variable}: no upstream has this name")
            case several:
                raise SettingError(
                    f"environment variable {variable}: for which upstream of {', '.join(several)}? "
                    f"append its name, as in {VARIABLE}_FAST, and let names differ in more than - "
                    "and _"
                )
    return found


def _checked(text: str, variable: str) -> str:
    if not _HEADER_VALUE.fullmatch(text):
        raise SettingError(
            f"environment variable {variable}: not fit for a header: give plain ASCII without "
            "spaces around it"
        )
    return text
