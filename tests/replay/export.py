"""What the proxy would export of streams: its own metrics, sampled once a minute.

Streams go through the proxy's own `Tally` as the records that a worker would send, so classes,
buckets and names are the proxy's and not a copy of them.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from prometheus_client.samples import Sample

from proxy.channel import End
from proxy.live import Beside
from proxy.metrics import Metrics
from proxy.series import Counter, Histogram
from proxy.tally import Tally

from .prometheus import BLOCK
from .traffic import Stream

STEP = 60  # seconds between two samples
_MODEL = "replayed"


class Export:
    """Series of one upstream: name and labels as text, and a value a minute.

    `first`: seconds since the epoch of the first sample, which is the one before any stream.
    """

    def __init__(self, upstream: str, minutes: Iterable[Sequence[Stream]], first: int) -> None:
        self.first = first
        self.samples = 0  # of each series
        self._upstream = upstream
        metrics = Metrics({})
        tally = Tally(metrics)
        tally.know(upstream, _MODEL, "openai-chat", "true")
        families = _families(metrics)
        self.series = {_name(sample): array("d") for sample in _collected(families)}
        self._sample(families)
        for streams in minutes:
            for number, stream in enumerate(streams):
                record = self._record(number, stream)
                beside = Beside(stream.at_arrival, stream.decoding)
                tally.end(_MODEL, record, None, beside)
            self._sample(families)
        last = [values[-1] for values in self.series.values()]
        assert last == [sample.value for sample in _collected(families)]

    def lines(self, begin: int, end: int) -> Iterator[str]:
        """Samples from `begin` up to before `end` (seconds since the epoch) as OpenMetrics."""
        start = max(0, -(-(begin - self.first) // STEP))
        stop = max(0, min(self.samples, -(-(end - self.first) // STEP)))
        times = [self.first + STEP * number for number in range(start, stop)]
        for name, values in self.series.items():
            if values[-1]:  # what never moved says nothing to any rate
                for value, time in zip(values[start:stop], times, strict=True):
                    yield f"{name} {value!r} {time}\n"

    def _record(self, number: int, stream: Stream) -> End:
        return {
            "kind": "end",
            "id": number,
            "upstream": self._upstream,
            "model": _MODEL,
            "api": "openai-chat",
            "stream": True,
            "outcome": "completed",
            "code": 200,
            "answered": True,
            "ttft_seconds": stream.ttft,
            "decode_tokens_per_second": 1 / stream.tpot,
            "prefill_tokens_per_second": (stream.prompt - stream.cached) / stream.ttft,
            "duration_seconds": stream.ttft + stream.tpot * stream.answer,
            "prompt_tokens": stream.prompt,
            "cached_prompt_tokens": stream.cached,
            "output_tokens": stream.answer,
            "token_source": "usage",
        }

    def _sample(self, families: Iterable[Counter | Histogram]) -> None:
        # What `collect` would give, ten times as fast; all series are there from the start.
        values = (value for family in families for value in _values(family))
        for series, value in zip(self.series.values(), values, strict=True):
            series.append(value)
        self.samples += 1


def _collected(families: Iterable[Counter | Histogram]) -> Iterator[Sample]:
    return (sample for family in families for sample in family.collect().samples)


def _values(family: Counter | Histogram) -> Iterator[float]:
    if isinstance(family, Counter):
        yield from (series.value for series in family._series.values())
        return
    for series in family._series.values():
        yield from accumulate(series.counts)
        yield from (sum(series.counts), series.total)


def _name(sample: Sample) -> str:
    labels = {**sample.labels, "job": "tokometer", "instance": "replay:9090"}
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{sample.name}{{{text}}}"


def _families(metrics: Metrics) -> list[Counter | Histogram]:
    """All cells, and what the alerts on speeds use."""
    others = (metrics.requests, metrics.ttft, metrics.tpot, metrics.decode)
    cells = [
        family
        for family in metrics._families
        if isinstance(family, Counter) and "concurrency" in family.labels
    ]
    return [*cells, *others]


def write(exports: Sequence[Export], folder: Path) -> list[Path]:
    """One OpenMetrics file for each block that the exports have samples in."""
    begin = min(one.first for one in exports) // BLOCK * BLOCK
    end = max(one.first + STEP * one.samples for one in exports)
    files = []
    for start in range(begin, end, BLOCK):
        file = folder / f"{start}.om"
        with file.open("w", encoding="utf-8") as out:
            for export in exports:
                out.writelines(export.lines(start, start + BLOCK))
            out.write("# EOF\n")
        files.append(file)
    return files
