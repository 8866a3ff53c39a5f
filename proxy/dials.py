"""The dials that a speed is quoted with: hardware, precision, engine; and the ceiling they set.

To decode a token for one user, all weights that are active are read from memory once, so that

    ceiling = devices * memory bandwidth / bytes per token        tokens per second

is the most that user can get (https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
calls the share of it that is reached model bandwidth utilisation). The cache of the context is read
on top of that; speculation gets more than one token out of a reading.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from proxy.devices import device
from proxy.labels import clean
from proxy.layers import Layer, by_model, laid
from proxy.quantities import bandwidth, count
from proxy.settings import SettingError, from_file, setting, settings_of
from proxy.weights import Weights, weights

_MOST_PARAMETERS = 1e18


class Memory(NamedTuple):
    """Bytes per second of one device, and its name where it is a known one."""

    bandwidth: int
    device: str | None = None


def memory(text: str) -> Memory:
    """Of a bandwidth such as `150GB/s` or a known device. Raises ValueError, one line."""
    per_second = bandwidth(text)
    if per_second is None:
        found = device(text)
        return Memory(found.bandwidth, found.name)
    if not per_second:
        raise ValueError("a memory that is read at 0 B/s has no ceiling: give one such as 150GB/s")
    return Memory(per_second)


def parameters(text: str) -> float:
    """A number of parameters such as `7e9` or `7B`. Raises ValueError, one line."""
    number = count(text)
    if not number or not 0 < number <= _MOST_PARAMETERS:
        raise ValueError(f"{text!r} will not do: give a number such as 7e9 or 7B")
    return number


@dataclass(frozen=True)
class Dials:
    """With what a model runs; None is unknown. The fields are settings."""

    memory_bandwidth: Memory | None = setting(
        None,
        unit="BYTES/S",
        shown="unknown",
        parse=memory,
        help="memory bandwidth of one device, such as 150GB/s, or the name of a known one, such as "
        "H200: with the next settings the ceiling of the decode rate",
    )
    devices: int = setting(1, least=1, help="devices that hold the model together")
    bytes_per_token: int | None = setting(
        None,
        unit="bytes",
        least=1,
        shown="unknown",
        help="what is read from memory for each token: the weights that are active",
    )
    weights: Weights | None = setting(
        None,
        unit="path",
        shown="unknown",
        parse=weights,
        help="the same, from the model's files: a GGUF or safetensors file, index or directory",
    )
    active_parameters: float | None = setting(
        None,
        unit="number",
        shown="unknown",
        parse=parameters,
        help="the same, from the number of active parameters, such as 7B, and bits-per-weight",
    )
    bits_per_weight: float | None = setting(
        None, least=0.1, most=64, shown="unknown", help="bits that each of them takes, such as 4.5"
    )
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
    def per_token(self) -> float | None:
        """Bytes that are read for each token."""
        if self.bytes_per_token is not None:
            return self.bytes_per_token
        if self.weights is not None:
            return self.weights.bytes_per_token
        if self.active_parameters is not None and self.bits_per_weight is not None:
            return self.active_parameters * self.bits_per_weight / 8
        return None

    @property
    def bandwidth(self) -> float | None:
        """Of all devices together, bytes per second."""
        memory = self.memory_bandwidth
        return None if memory is None else self.devices * memory.bandwidth

    @property
    def ceiling(self) -> float | None:
        """The most that one user can get, tokens per second."""
        if self.bandwidth is None or self.per_token is None:
            return None
        return self.bandwidth / self.per_token

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
WAYS = (("bytes_per_token",), ("weights",), ("active_parameters", "bits_per_weight"))


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
        for upstream, model in [*((name, "") for name in upstreams), *self.models]:
            try:
                self.of(upstream, model)
            except SettingError as error:
                of = f"upstreams.{upstream}" + f'.models."{model}"' * bool(model)
                raise SettingError(f"{of}: {error}") from None

    def notes(self) -> Iterator[str]:
        """What is to be known of figures that were read from files."""
        for layer in (self.everywhere, *self.upstreams.values(), *self.models.values()):
            if (found := layer.get("weights")) is not None and found.note:
                yield f"weights: {found.note}"


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
