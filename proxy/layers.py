"""Settings that hold in general, and others that are given for a part: the nearer one counts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from proxy.labels import clean
from proxy.settings import SettingError

Layer = Mapping[str, Any]  # field to value; None is "off", a field that is absent was not given
# Each member is a set of fields that together say the same thing as any other member does.
Ways = Sequence[Collection[str]]


def by_model(models: Mapping[str, Mapping[str, Any]], under: str) -> dict[str, Mapping[str, Any]]:
    """Tables by model, named as the label `model` has it. Raises SettingError for one twice.

    `under`: where the tables are, for the message.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for name, table in models.items():
        if (model := clean(name)) in found:
            raise SettingError(
                f'{under}: two tables for the model "{model}": leave one of them out'
            )
        found[model] = table
    return found


def laid(ways: Ways, *layers: Layer) -> dict[str, Any]:
    """What holds: of two layers the later one counts.

    A layer that says something in one of `ways` takes back what those before it said in others.
    Raises SettingError if one layer says it in two.
    """
    held: dict[str, Any] = {}
    for layer in layers:
        used = [way for way in ways if any(layer.get(field) is not None for field in way)]
        if len(used) > 1:
            one, other = (next(field for field in way if layer.get(field)) for way in used[:2])
            raise SettingError(f"{one} and {other} say the same thing: leave one of them out")
        if used:
            others = {field for way in ways if way is not used[0] for field in way}
            held = {field: value for field, value in held.items() if field not in others}
        held.update(layer)
    return held
