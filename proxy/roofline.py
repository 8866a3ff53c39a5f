"""The most that one user can get: what the memory of the hardware and the size of the model allow.

To decode a token for one user, all weights that are active are read from memory once, so that

    ceiling = devices * memory bandwidth / bytes per token        tokens per second

is the most that user can get (https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
calls the share of it that is reached model bandwidth utilisation). The cache of the context is read
on top of that; speculation gets more than one token out of a reading.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from proxy.devices import device
from proxy.quantities import bandwidth, count
from proxy.settings import setting
from proxy.weights import Weights, weights

# The settings that say what is read for a token, in one way or another.
WAYS = (("bytes_per_token",), ("weights",), ("active_parameters", "bits_per_weight"))

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
class Roofline:
    """What bounds the decode rate of one user; None is unknown. The fields are settings."""

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
        help="what is read from memory for each token, such as 3.3GB: the weights that are active",
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

    def missing(self, named: Callable[[str], str] = str) -> str | None:
        """What is to be given, so that there is a ceiling; None where there is one.

        Args:
            named: makes of a field what users call it.
        """
        parts = []
        if self.bandwidth is None:
            parts.append(f"{named('memory_bandwidth')}, such as 150GB/s or H200")
        if (pair := self.half) is not None:
            parts.append(" beside ".join(map(named, pair)))
        elif self.per_token is None:
            ways = [" and ".join(map(named, way)) for way in WAYS]
            parts.append(f"what is read for each token, as {', '.join(ways[:-1])}, or {ways[-1]}")
        return f"no ceiling yet: give {'; and '.join(parts)}" if parts else None

    @property
    def half(self) -> tuple[str, str] | None:
        """Of a size that takes two fields the one that is missing, and the one that is there."""
        parameters, bits = self.active_parameters, self.bits_per_weight
        if self.per_token is not None or (parameters is None) == (bits is None):
            return None
        one, other = WAYS[-1]
        return (one, other) if parameters is None else (other, one)
