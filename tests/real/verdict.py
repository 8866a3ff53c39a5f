"""Our numbers beside the engine's, and whether they are close enough."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from .clients import Told
from .engines import Engine, Truth
from .rounds import Abandoned, Line, Round

TTFT_BOUND = 0.010  # seconds between the means, where the engine reports it
TPOT_BOUND = 0.03  # between the means, as part of the engine's
ABANDONED_BOUND = 5  # tokens, for each abandoned stream


@dataclass(frozen=True)
class Pair:
    """A number of ours and the engine's; None where there is none."""

    ours: float | None
    engine: float | None

    @property
    def difference(self) -> float:
        """Ours minus the engine's; not a number where one of them is missing."""
        if self.ours is None or self.engine is None:
            return float("nan")
        return self.ours - self.engine


@dataclass(frozen=True)
class Row:
    """One round, judged. Times are in seconds, those of the pairs are means."""

    interface: str
    concurrency: int
    streams: int
    prompt_tokens: Pair
    output_tokens: Pair
    ttft: Pair
    tpot: Pair
    held_up: float
    missed: list[str]


@dataclass(frozen=True)
class Left:
    """The abandoned streams of one interface, judged; a pair of token counts for each."""

    interface: str
    sources: list[str]
    output_tokens: list[Pair]
    missed: list[str]


def judge(engine: Engine, measured: Round) -> Row:
    truth = engine.truth(measured.moved, len(measured.lines))
    prompt = Pair(total(measured.lines, "prompt_tokens"), truth.prompt_tokens)
    output = Pair(total(measured.lines, "output_tokens"), truth.output_tokens)
    ttft = Pair(mean(measured.lines, "ttft_seconds"), truth.ttft)
    tpot = compare_tpot(engine, measured, truth)
    missed = [f"{told.request_id}: {told.failure}" for told in measured.told if told.failure]
    missed += [*wrong_outcomes(measured.lines, "completed"), *wrong_counts(measured)]
    if prompt.difference != 0:
        missed.append(f"prompt tokens off by {prompt.difference:+.0f}")
    if output.difference != 0:
        missed.append(f"output tokens off by {output.difference:+.0f}")
    if engine.reports_ttft and not abs(ttft.difference) <= TTFT_BOUND:
        missed.append(f"TTFT off by {ttft.difference * 1e3:+.1f} ms")
    if not abs(tpot.difference) <= TPOT_BOUND * (tpot.engine or 0.0):
        missed.append(f"time per output token off by {share(tpot):+.1%}")
    return Row(
        measured.interface,
        measured.concurrency,
        len(measured.lines),
        prompt,
        output,
        ttft,
        tpot,
        measured.held_up,
        missed,
    )


def judge_left(left: Sequence[Abandoned]) -> Left:
    pairs = [Pair(stream.line.get("output_tokens"), stream.engine_tokens) for stream in left]
    missed = wrong_outcomes([stream.line for stream in left], "client_closed")
    for stream, pair in zip(left, pairs, strict=True):
        if not abs(pair.difference) <= ABANDONED_BOUND:
            after = f"left after {stream.leave_after} events"
            missed.append(f"output tokens off by {pair.difference:+.0f} when {after}")
    sources = sorted({str(stream.line.get("token_source")) for stream in left})
    return Left(left[0].interface, sources, pairs, missed)


def compare_tpot(engine: Engine, measured: Round, truth: Truth) -> Pair:
    """Both means over the same streams, weighted alike."""
    timed = [
        (line, told.timings)
        for line, told in zip(measured.lines, measured.told, strict=True)
        if told.timings
    ]
    if timed:
        engines = fmean(1.0 / timings["predicted_per_second"] for _, timings in timed)
        return Pair(mean_tpot([line for line, _ in timed]), engines)
    weighted = engine.tpot_is_per_token
    return Pair(mean_tpot(measured.lines, per_token=weighted), truth.tpot)


def mean_tpot(lines: Sequence[Line], *, per_token: bool = False) -> float | None:
    """Each stream weighs one, or `per_token` as much as it has tokens after the first.

    None where a stream has no decode rate: over fewer streams it would be another number.
    """
    if not all(line.get("decode_tokens_per_second") for line in lines):
        return None
    weights = [line["output_tokens"] - 1 if per_token else 1 for line in lines]
    return fmean((1.0 / line["decode_tokens_per_second"] for line in lines), weights)


def wrong_counts(measured: Round) -> list[str]:
    """Streams whose client was told other numbers than we logged."""
    return [
        f"{told.request_id}: {key} {line.get(key)}, the engine told the client {truth}"
        for told, line in zip(measured.told, measured.lines, strict=True)
        for key, truth in counts_told(told)
        if line.get(key) != truth
    ]


def counts_told(told: Told) -> Iterable[tuple[str, float]]:
    """Everything that the client learned of its counts, by field of our log."""
    if told.prompt_tokens is not None:
        yield "prompt_tokens", told.prompt_tokens
    if told.output_tokens is not None:
        yield "output_tokens", told.output_tokens
    if told.timings:
        yield "prompt_tokens", told.timings["prompt_n"] + told.timings["cache_n"]
        yield "output_tokens", told.timings["predicted_n"]


def wrong_outcomes(lines: Sequence[Line], expected: str) -> list[str]:
    wrong = [line for line in lines if line.get("outcome") != expected]
    return [f"{line['request_id']}: logged outcome {line.get('outcome')}" for line in wrong]


def total(lines: Sequence[Line], key: str) -> float:
    return float(sum(line.get(key, 0) for line in lines))


def mean(lines: Sequence[Line], key: str) -> float | None:
    """None where a line lacks the field: over fewer streams it would be another number."""
    values = [line[key] for line in lines if line.get(key) is not None]
    return fmean(values) if values and len(values) == len(lines) else None


def share(pair: Pair) -> float:
    return pair.difference / pair.engine if pair.engine else float("nan")


def table(rows: Sequence[Row]) -> str:
    """Per round: ours, the engine's and the difference of each number."""
    head = (
        f"{'':<17}{'':>8}{'prompt tokens':^20}{'output tokens':^20}"
        f"{'mean TTFT, ms':^24}{'time per token, ms':^25}{'held up':>9}\n"
        f"{'interface':<12}{'at once':>7}{'streams':>8}{'ours':>7}{'engine':>7}{'diff':>5}"
        f"{'ours':>8}{'engine':>7}{'diff':>5}{'ours':>9}{'engine':>8}{'diff':>7}"
        f"{'ours':>9}{'engine':>8}{'diff':>8}{'ms':>9}"
    )
    return "\n".join([head, *map(table_line, rows)])


def table_line(row: Row) -> str:
    return (
        f"{row.interface:<12}{row.concurrency:>5}{row.streams:>8}"
        f"{tokens(row.prompt_tokens)}{tokens(row.output_tokens)}"
        f"{milliseconds(row.ttft)}{row.ttft.difference * 1e3:>+7.1f}"
        f"{milliseconds(row.tpot)}{share(row.tpot):>+8.1%}{row.held_up * 1e3:>9.0f}"
        f"  {'missed' if row.missed else 'ok'}"
    )


def tokens(pair: Pair) -> str:
    return f"{pair.ours:>8.0f}{pair.engine:>7.0f}{pair.difference:>+5.0f}"


def milliseconds(pair: Pair) -> str:
    return "".join(
        f"{'-':>{width}}" if value is None else f"{value * 1e3:>{width}.2f}"
        for value, width in ((pair.ours, 9), (pair.engine, 8))
    )


def table_of_left(rows: Sequence[Left]) -> str:
    lines = ["abandoned streams: our output tokens less the engine's, one by one"]
    for row in rows:
        differences = " ".join(f"{pair.difference:+.0f}" for pair in row.output_tokens)
        verdict = "missed" if row.missed else "ok"
        sources = ", ".join(row.sources)
        lines.append(f"{row.interface:<12}{differences}  (counted by {sources})  {verdict}")
    return "\n".join(lines)
