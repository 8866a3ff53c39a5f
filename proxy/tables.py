"""What only the TOML file has: tables."""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from proxy import dials, objectives, scouting
from proxy.address import EXAMPLE, Upstream
from proxy.buckets import OURS
from proxy.layers import Layer
from proxy.papers import MOST_BYTES, content
from proxy.settings import Setting, SettingError, from_file, unknown

_ADDRESS = {"url": EXAMPLE, "prefix": "/{name}"}  # with examples
_IN_UPSTREAMS = (
    *_ADDRESS,
    *(setting.name for setting in (*scouting.SETTINGS, *dials.SETTINGS)),
    "models",
)


class Tables(NamedTuple):
    """`[upstreams.NAME]`, `[objectives]` and `[buckets]`.

    `scouting` is by name and field (`Scouting`), as is `dials` (`Dials`), of each upstream that is
    named, and `model_dials`, by upstream and model; `objectives` are those of all models, then by
    name of the model.
    """

    upstreams: tuple[Upstream, ...] = ()
    scouting: Mapping[str, Mapping[str, Any]] = {}
    buckets: Mapping[str, tuple[float, ...]] = {}
    dials: Mapping[str, Layer] = {}
    model_dials: Mapping[tuple[str, str], Layer] = {}
    objectives: tuple[Layer, Mapping[str, Layer]] = ({}, {})


def read(path: Path) -> dict[str, Any]:
    """A TOML file. Raises SettingError."""
    try:
        text = content(str(path))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingError(
            f"config: cannot read {path} ({why}): give a TOML file with --config"
        ) from None
    if len(text) > MOST_BYTES:
        raise SettingError(f"config: {path} has more than 1 MiB: give a TOML file with --config")
    try:
        return tomllib.loads(text.decode("utf-8-sig"))  # some editors put a mark before it
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        why = str(error)
    except RecursionError:
        why = "it is nested too deep"
    except ValueError:
        why = "a number in it has thousands of digits"
    raise SettingError(
        f"config: {path} is not TOML ({why}): mend it there, or give another with --config"
    )


def taken(content: dict[str, Any], path: Path) -> Tables:
    """Takes the tables out of `content`, which came from `path`. Raises SettingError."""
    named = content.pop("upstreams", {})
    if not isinstance(named, dict):
        raise SettingError(f"upstreams in {path}: give tables such as [upstreams.fast]")
    for name, table in named.items():
        _check_keys(name, table, path)
    upstreams = tuple(
        _upstream(name, table, path) for name, table in named.items() if _is_other(name, table)
    )
    of_models: dict[tuple[str, str], Layer] = {}
    for name, table in named.items():
        of_models |= dials.of_models(name, table, path)
    return Tables(
        upstreams,
        {name: _own(scouting.SETTINGS, name, table, path) for name, table in named.items()},
        _buckets(content.pop("buckets", {}), path),
        {name: _own(dials.SETTINGS, name, table, path) for name, table in named.items()},
        of_models,
        objectives.of_file(content.pop("objectives", {}), path),
    )


def _check_keys(name: str, table: object, path: Path) -> None:
    for key in table if isinstance(table, dict) else ():
        if key not in _IN_UPSTREAMS:
            raise SettingError(f"upstreams.{name}.{key} in {path}: {unknown(key, _IN_UPSTREAMS)}")


def _is_other(name: str, table: object) -> bool:
    """Whether this is no table of settings for the upstream that `--upstream` names."""
    return name != "default" or not isinstance(table, dict) or bool(_ADDRESS.keys() & table.keys())


def _upstream(name: str, table: object, path: Path) -> Upstream:
    values = table if isinstance(table, dict) else {}
    for key, example in _ADDRESS.items():
        if not isinstance(values.get(key), str):
            example = example.format(name=name)
            raise SettingError(f'upstreams.{name} in {path}: give it {key} = "{example}"')
    try:
        return Upstream.parse(name, **{key: values[key] for key in _ADDRESS})
    except ValueError as error:
        raise SettingError(f"upstreams.{name} in {path}: {error}") from None


def _own(
    settings: Sequence[Setting], name: str, table: Mapping[str, object], path: Path
) -> dict[str, Any]:
    """Field names and values of these settings in the table of an upstream."""
    own = {one.name: table[one.name] for one in settings if one.name in table}
    return from_file(settings, own, path, f"upstreams.{name}.")


def _buckets(tables: object, path: Path) -> dict[str, tuple[float, ...]]:
    """The `[buckets]` table."""
    if not isinstance(tables, dict):
        raise SettingError(f"buckets in {path}: give a table of lists of numbers")
    for name in tables:
        if name.startswith(OURS) and name.removeprefix(OURS) in tables:
            raise SettingError(
                f"buckets in {path}: {name.removeprefix(OURS)} and {name} are one histogram: "
                "leave one of them out"
            )
    return {name: _bounds(raw, f"buckets.{name} in {path}") for name, raw in tables.items()}


def _bounds(raw: object, source: str) -> tuple[float, ...]:
    numbers = raw if isinstance(raw, list) else []
    usable = all(
        type(number) in (int, float) and abs(number) <= sys.float_info.max for number in numbers
    )
    if not numbers or not usable or any(a >= b for a, b in pairwise(numbers)):
        raise SettingError(f"{source}: give a list of rising numbers, such as [0.1, 0.2, 0.5]")
    return tuple(float(number) for number in numbers)
