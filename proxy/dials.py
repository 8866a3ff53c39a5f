"""The dials that a speed is quoted with: hardware, precision, engine; and the ceiling they set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from proxy.labels import clean
from proxy.layers import Layer, by_model, laid
from proxy.roofline import WAYS, Roofline
from proxy.settings import SettingError, from_file, setting, settings_of


@dataclass(frozen=True)
class Dials(Roofline):
    """With what a model runs; None is unknown. The fields are settings."""

    precision: str | None = setting(
        None, shown="unknown", help="label of tokometer_model_info, such as Q4_K_M"
    )
    hardware: str | None = setting(
        None, shown="the known device", help="label of tokometer_model_info, such as 2 x H200"
    )
    engine: str | None = setting(
        None, shown="unknown", help="label of tokometer_model_info, such as vLLM 0.32"
    )

    @property
    def info(self) -> tuple[str, str, str] | None:
        """Labels: precision, hardware and engine, empty where unknown; None if all are."""
        labels = tuple(clean(text or "") for text in (self.precision, self._on, self.engine))
        return labels if any(labels) else None  # type: ignore[return-value]

    @property
    def _on(self) -> str | None:
        known = self.memory_bandwidth and self.memory_bandwidth.device
        if self.hardware or not known:
            return self.hardware
        return known if self.devices == 1 else f"{self.devices} x {known}"


SETTINGS = settings_of(Dials)
FIELDS = frozenset(one.name for one in fields(Dials))
Place = tuple[str, str]  # upstream and model; without a model, all of them
EVERYWHERE: Place = ("", "")
_BOUNDS = frozenset(one.name for one in fields(Roofline))


@dataclass(frozen=True)
class DialTable:
    """The dials by upstream and model: what is said of a model goes before what its upstream says.

    `models` has the names of models as the label `model` has them.
    """

    everywhere: Layer = field(default_factory=dict)
    upstreams: Mapping[str, Layer] = field(default_factory=dict)
    models: Mapping[tuple[str, str], Layer] = field(default_factory=dict)

    def of(self, upstream: str, model: str) -> Dials:
        """Raises SettingError where the size of the model is given in two ways."""
        layers = self.upstreams.get(upstream, {}), self.models.get((upstream, model), {})
        return Dials(**laid(WAYS, self.everywhere, *layers))

    def check(self, upstreams: Sequence[str]) -> None:
        """Raises SettingError where a table is for none of `upstreams`, or contradicts itself."""
        for upstream in self.upstreams:
            if upstream not in upstreams:
                raise SettingError(
                    f"upstreams.{upstream}: give it a url and a prefix"
                    + (", or pass --upstream" if upstream == "default" else "")
                )
        for place in [*((name, "") for name in upstreams), *self.models]:
            try:
                self.of(*place)
            except SettingError as error:
                raise SettingError(f"{_named(*place)}{error}") from None
        for place, begun in self._begun():
            if begun.half is not None:
                raise SettingError(f"{_named(*place)}{begun.missing()}")

    def notes(self) -> Iterator[str]:
        """What is to be known of figures that were read from files, and of ceilings only begun."""
        for layer in (self.everywhere, *self.upstreams.values(), *self.models.values()):
            if (found := layer.get("weights")) is not None and found.note:
                yield f"weights: {found.note}"
        alike: dict[str | None, list[Place]] = {}
        for place, begun in self._begun():
            alike.setdefault(begun.missing(), []).append(place)
        for missing, (first, *others) in alike.items():
            yield f"{_named(*first)}{missing}" + f" (and {len(others)} more)" * bool(others)

    def _begun(self) -> Iterator[tuple[Place, Dials]]:
        """Where something is said of a ceiling, and neither there nor further in there is one.

        What is said for many can be meant for those few that say the rest.
        """
        places = (*self.models, *((upstream, "") for upstream in self.upstreams), EVERYWHERE)
        told: list[Place] = []
        for place in places:
            inside = [one for one in places if _holds(place, one)]
            is_said = any(self._layer(place).get(bound) is not None for bound in _BOUNDS)
            if is_said and not any(one in told or self.of(*one).ceiling for one in inside):
                told.append(place)
                yield place, self.of(*place)

    def _layer(self, place: Place) -> Layer:
        upstream, model = place
        if model:
            return self.models[place]
        return self.upstreams[upstream] if upstream else self.everywhere


def _holds(outer: Place, inner: Place) -> bool:
    """Whether what is said at `outer` is said of `inner`, too."""
    return outer == EVERYWHERE or outer in (inner, (inner[0], ""))


def _named(upstream: str, model: str) -> str:
    """A place as errors begin with it."""
    if not upstream:
        return ""
    return f"upstreams.{upstream}" + f'.models."{model}"' * bool(model) + ": "


NO_DIALS = DialTable()


def of_models(
    name: str, table: Mapping[str, Any], path: Path
) -> dict[tuple[str, str], dict[str, Any]]:
    """The dials of the models in a `[upstreams.NAME]` table, by upstream and model."""
    under = f"upstreams.{name}.models"
    models = table.get("models", {})
    if not isinstance(models, dict) or not all(isinstance(one, dict) for one in models.values()):
        raise SettingError(f'{under} in {path}: give tables such as [{under}."MODEL"]')
    return {
        (name, model): from_file(SETTINGS, of, path, f'{under}."{model}".')
        for model, of in by_model(models, f"{under} in {path}").items()
    }
