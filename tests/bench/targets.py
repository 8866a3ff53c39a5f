"""What the project wants to reach, beside what it does reach."""

from collections.abc import Iterator
from typing import NamedTuple

from .results import Results

_OWN = "tokometer"
_FLAT_MIB = 16


class Target(NamedTuple):
    """A figure and its limit; `figure` is None where it could not be measured."""

    name: str
    figure: float | None
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None where that is not known."""
        if self.figure is None:
            return None
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        verdict = {True: "met", False: "missed", None: "not measured"}[self.met]
        bound = "at least" if self.at_least else "at most"
        figure = "-" if self.figure is None else f"{self.figure:.3g}"
        return f"{verdict:12} {self.name}: {figure} ({bound} {self.limit:.3g})"


def targets(results: Results) -> Iterator[Target]:
    """All of them."""
    yield from _processor(results)
    yield from _many_streams(results)
    yield from _large(results)
    get = results.get
    yield Target("seconds to ready", get(_OWN, "start", "ready_seconds"), 1.0)
    error = get(_OWN, "truth", "ttft_error_p99_ms")
    yield Target("TTFT, error at p99 in ms, 4,000 chunks/s", error, 2.0)
    error = get(_OWN, "truth", "rate_error_p99_percent")
    yield Target("decode rate, error at p99 in per cent, 4,000 chunks/s", error, 1.0)


def _processor(results: Results) -> Iterator[Target]:
    chunk, request = "cpu_us_per_chunk", "cpu_us_per_request"
    for peer, limit in (("envoy", 1.0), ("nginx", 2.0)):
        ratio = _ratio(results, "100x40/s", chunk, peer)
        yield Target(f"processor time a chunk, 100x40/s, over {peer}'s", ratio, limit)
    own = results.get(_OWN, "100x40/s", chunk)
    litellm = results.get("litellm", "5x40/s", chunk)  # it cannot carry the other load
    ratio = own / litellm if own is not None and litellm else None
    yield Target("processor time a chunk, 100x40/s, over litellm's at 5x40/s", ratio, 1 / 30)
    ratio = _ratio(results, "500/s, kept", request, "envoy")
    yield Target("processor time a small request, over envoy's", ratio, 2.5)


def _many_streams(results: Results) -> Iterator[Target]:
    scene = "1000x4/s"
    yield Target("streams lost of 1,000", results.get(_OWN, scene, "lost"), 0)
    own, nginx = (_added(results, name, scene, "ttft_p99_us") for name in (_OWN, "nginx"))
    ratio = own / nginx if own is not None and nginx is not None and nginx > 0 else None
    yield Target("added TTFT at p99, 1,000 streams, over nginx's", ratio, 3.0)
    memory = results.get(_OWN, scene, "memory_kib_per_stream")
    yield Target("KiB of memory a stream, 1,000 streams", memory, 40)


def _large(results: Results) -> Iterator[Target]:
    for way in ("down", "up"):
        ratio = _ratio(results, f"body {way}", "mb_per_second", "nginx")
        yield Target(f"rate of a large body {way}, over nginx's", ratio, 0.5, at_least=True)
        grown = results.get(_OWN, f"body {way}", "memory_growth_mib")
        yield Target(f"MiB of memory grown by a large body {way}", grown, _FLAT_MIB)


def _ratio(results: Results, scene: str, figure: str, peer: str) -> float | None:
    own, base = results.get(_OWN, scene, figure), results.get(peer, scene, figure)
    return own / base if own is not None and base else None


def _added(results: Results, name: str, scene: str, figure: str) -> float | None:
    own, base = results.get(name, scene, figure), results.get("direct", scene, figure)
    return own - base if own is not None and base is not None else None
