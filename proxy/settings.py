"""One definition of a setting, and what follows from it: flag, variable, file key, help.

A settings class is a dataclass. Each field that a user can set carries metadata: `help`, and where
needed `unit` (`seconds` and `bytes` are read as durations and sizes), `least`, `most`, `name` (the
public name, where the field's own will not do), `shown` (the default as people read it),
`parse` (text to value, raises ValueError with what to give) and `many` (several values behind one
flag: a tuple of what `parse` makes of each). The kind of value comes from the
annotation: str, int, float, bool or a Literal; others need `parse`. `| None` can be `off`.
"""

import argparse
import dataclasses
import difflib
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from proxy.quantities import decimal, duration, size, size_text, whole

PREFIX = "TOKOMETER_"
METADATA = ("help", "unit", "least", "most", "name", "shown", "parse", "many")
# What Kubernetes puts into the environment of every pod for a service that is named tokometer.
KUBERNETES = re.compile(r"\w+_SERVICE_(HOST|PORT)(_\w+)?|\w+_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?")
LONGEST_LINE = 1000  # characters of what is said of a setting
KUBERNETES_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

SWITCH = {"true": True, "yes": True, "on": True, "1": True}
SWITCH |= {"false": False, "no": False, "off": False, "0": False}


class SettingError(Exception):
    """What a user gave cannot be used; the text is one line that names it and the remedy."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def one_line(text: str) -> str:
    """The same where what it quotes breaks lines, steers terminals, or is very long."""
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2 :]}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """How text becomes a value: `read` gives None for text that is not `expected`."""

    read: Callable[[str], Any]
    expected: str
    metavar: str


BY_UNIT = {
    "bytes": Reading(size, "a size such as 1000000 or 64MiB", "BYTES"),
    "seconds": Reading(duration, "a duration such as 5, 500ms or 2m", "SECONDS"),
}
BY_KIND: dict[type, Reading] = {
    bool: Reading(lambda text: SWITCH.get(text.lower()), "true or false", "BOOL"),
    int: Reading(whole, "a whole number", "NUMBER"),
    float: Reading(decimal, "a number", "NUMBER"),
    str: Reading(lambda text: text or None, "a text", "TEXT"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A setting as users meet it; `field` is the attribute of the settings class."""

    field: str
    name: str
    kind: type
    default: Any
    help: str
    optional: bool = False
    choices: tuple[str, ...] = ()
    unit: str = ""
    least: float = -math.inf
    most: float = math.inf
    shown: str = ""
    parse: Callable[[str], Any] | None = None
    many: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def metavar(self) -> str:
        """What stands for the value in `--help`."""
        if self.choices:
            return "{" + ",".join(self.choices) + "}"
        if self.unit and self.unit not in BY_UNIT:
            return self.unit.upper()
        return self._reading.metavar

    @property
    def default_text(self) -> str:
        """The default as people read it; empty where there is none."""
        if self.shown or self.default is dataclasses.MISSING or self.many:
            return self.shown
        if self.default is None or isinstance(self.default, bool):
            return "on" if self.default else "off"
        if self.unit == "bytes":
            return size_text(self.default)
        number = f"{self.default:g}" if self.kind is float else str(self.default)
        return f"{number} s" if self.unit == "seconds" else number

    def value(self, raw: object, source: str) -> Any:
        """The value that `raw` (text, or what TOML made of it) stands for, or SettingError."""
        if self.many and isinstance(raw, list):
            return tuple(self.value(one, source) for one in raw)
        if not isinstance(raw, str | int | float):
            raise SettingError(f"{source}: give {self.expected}")
        # In decimals a number of thousands of digits has no text.
        text = f"{raw:#x}" if isinstance(raw, int) and raw.bit_length() > 1024 else str(raw)
        if "\0" in text:
            raise SettingError(f"{source}: {text!r} will not do: leave the null byte out")
        if self.optional and text == "off":
            return None
        if self.parse is not None:
            return self._parsed(text, source)
        value = self._reading.read(text)
        if value is None or (self.choices and value not in self.choices) or self._outside(value):
            raise SettingError(f"{source}: {text!r} will not do: give {self.expected}")
        return value

    def _parsed(self, text: str, source: str) -> Any:
        assert self.parse is not None
        try:
            return self.parse(text)
        except ValueError as error:
            raise SettingError(f"{source}: {error}") from None

    def _outside(self, value: Any) -> bool:
        return isinstance(value, int | float) and not self.least <= value <= self.most

    @property
    def _reading(self) -> Reading:
        return BY_UNIT.get(self.unit) or BY_KIND.get(self.kind) or BY_KIND[str]

    @property
    def expected(self) -> str:
        """What a good value looks like."""
        what = " or ".join(self.choices) or self._reading.expected
        if self.most < math.inf:
            what += f" from {self.least:g} to {self.most:g}"
        elif self.least > -math.inf:
            what += f", at least {self.least:g}"
        return what + (", or off" if self.optional else "")


def setting(default: Any, **metadata: Any) -> Any:
    """A field of a settings class that users can set."""
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: type) -> list[Setting]:
    """The settings of a settings class, in the order of its fields."""
    hints = get_type_hints(cls)
    return [
        _setting(field, hints[field.name])
        for field in dataclasses.fields(cls)
        if "help" in field.metadata
    ]


def _setting(field: "dataclasses.Field[Any]", hint: Any) -> Setting:
    of = {key: field.metadata[key] for key in METADATA if key in field.metadata}
    name = of.pop("name", field.name)
    optional = get_origin(hint) in (Union, types.UnionType)
    if optional:
        (hint,) = (kind for kind in get_args(hint) if kind is not types.NoneType)
    if get_origin(hint) is Literal:
        of["choices"], hint = get_args(hint), str
    kind = get_origin(hint) or hint
    return Setting(field.name, name, kind, field.default, optional=optional, **of)


def add_flags(parser: argparse.ArgumentParser, settings: Iterable[Setting]) -> None:
    """Gives `parser` a flag for each setting; one that is not used is absent from the namespace."""
    for setting in settings:
        default = f" (default {setting.default_text})" if setting.default_text else ""
        keywords: dict[str, Any] = {"metavar": setting.metavar}
        if setting.kind is bool:
            keywords = {"action": argparse.BooleanOptionalAction}
        if setting.many:
            keywords |= {"nargs": "+"}
        parser.add_argument(
            setting.flag,
            dest=setting.name,
            default=argparse.SUPPRESS,
            help=(setting.help + default).replace("%", "%%"),
            **keywords,
        )


def from_flags(settings: Iterable[Setting], given: Mapping[str, object]) -> dict[str, Any]:
    """Field names and values of the settings among `given`, a parser's names and raw values."""
    return {
        setting.field: setting.value(given[setting.name], f"flag {setting.flag}")
        for setting in settings
        if setting.name in given
    }


def from_environment(settings: Iterable[Setting], environ: Mapping[str, str]) -> dict[str, Any]:
    """Field names and values of the variables among `environ`; an empty variable counts as unset.

    Raises SettingError for a bad value, and for a variable with our prefix that is no setting.
    """
    known = {setting.variable: setting for setting in settings}
    values = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or not text or _is_kubernetes(variable, text):
            continue
        if variable not in known:
            raise SettingError(f"environment variable {variable}: {unknown(variable, known)}")
        setting = known[variable]
        values[setting.field] = setting.value(text, f"environment variable {variable}")
    return values


def from_file(
    settings: Iterable[Setting], table: Mapping[str, object], path: Path, under: str = ""
) -> dict[str, Any]:
    """Field names and values of the keys of a table of a TOML file. Raises SettingError.

    `under`: the table's own name and a dot; empty for the top level.
    """
    known = {setting.name: setting for setting in settings}
    values = {}
    for key, raw in table.items():
        source = f"{under}{key} in {path}"
        if key not in known:
            raise SettingError(f"{source}: {unknown(key, known)}")
        values[known[key].field] = known[key].value(raw, source)
    return values


def unknown(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none of `known`."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"no such setting: did you mean {near[0]}?" if near else "no such setting: leave it out"


def _is_kubernetes(variable: str, text: str) -> bool:
    return KUBERNETES.fullmatch(variable) is not None or (
        variable.endswith("_PORT") and KUBERNETES_ADDRESS.match(text) is not None
    )
