"""`tokometer ceiling`: the most that one user can get, and the share of it that was measured."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.devices import device
from proxy.layers import laid
from proxy.logged import Cell, cells
from proxy.quantities import bytes_text, decimal, duration
from proxy.roofline import WAYS, Roofline
from proxy.settings import SettingError, setting
from proxy.weights import Weights

# People read 238 words of English a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), and a
# word is about one and a quarter tokens.
WORDS_PER_MINUTE = 238
READING_SPEED = 5.0  # tokens per second


def _measured(text: str) -> float:
    """Tokens per second, also of a time per token such as `14ms`."""
    rate, seconds = decimal(text), duration(text)
    if rate is None and seconds:
        rate = 1 / seconds
    if not rate or rate < 0:
        raise ValueError(f"{text!r} will not do: give tokens per second, or a time such as 14ms")
    return rate


@dataclass(frozen=True)
class CeilingSettings(Roofline):
    """What the arithmetic is about, and what is compared with it."""

    measured: float | None = setting(
        None,
        unit="TOKENS/S",
        shown="none",
        parse=_measured,
        help="decode rate to compare with, or time per token, such as 14ms",
    )
    log: tuple[str, ...] = setting(
        (), unit="FILE", parse=str, many=True, help="request logs to take decode rates from"
    )
    model: str | None = setting(
        None, shown="all", help="only what the request logs say of this model"
    )


def run(settings: CeilingSettings) -> int:
    """Prints the arithmetic; the exit code. Raises SettingError."""
    _check(settings)
    rows = [*_about(settings), *_compared(settings)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {text}" for name, text in rows]
    if settings.ceiling is not None and settings.log:
        lines += ["", *_table(cells(settings.log, settings.model), settings.ceiling)]
    print("\n".join(lines))
    return 0


def _check(settings: CeilingSettings) -> None:
    laid(WAYS, {field: getattr(settings, field) for way in WAYS for field in way})
    # A measured speed and a size say what is read in a second, whatever the bandwidth.
    is_enough = settings.per_token is not None and settings.measured is not None
    if not is_enough or settings.log or settings.devices > 1:
        missing = settings.missing(named=lambda field: "--" + field.replace("_", "-"))
        if missing is not None:
            raise SettingError(missing)
    if settings.model is not None and not settings.log:
        raise SettingError("model is of request logs: give one with --log, or leave --model out")


def _about(settings: CeilingSettings) -> Iterator[tuple[str, str]]:
    """Rows of what is known before anything is measured."""
    assert settings.per_token is not None
    size = bytes_text(settings.per_token)
    if (memory := settings.memory_bandwidth) is not None:
        text = f"{bytes_text(memory.bandwidth)}/s"
        if memory.device is not None:
            text += f" ({memory.device}: {device(memory.device).source})"
        yield "memory bandwidth", f"{settings.devices} x {text}" if settings.devices > 1 else text
    yield "read per token", size + _note(settings.weights)
    if settings.ceiling is not None and settings.bandwidth is not None:
        what = f"{bytes_text(settings.bandwidth)}/s / {size}"
        ceiling = settings.ceiling
        rough = f"{ceiling:.0f}" if ceiling >= 20 else f"{ceiling:.2g}"
        yield "ceiling", f"{rough} tokens/s for one user ({what} = {ceiling:.5g})"
        yield (
            "reading speed",
            f"{READING_SPEED:.0f} tokens/s ({WORDS_PER_MINUTE} words a minute): the ceiling is "
            f"{speed(ceiling / READING_SPEED)} times that",
        )


def _note(found: Weights | None) -> str:
    if found is None or not found.note:
        return ""
    return f" of {bytes_text(found.total)} ({found.note})"


def _compared(settings: CeilingSettings) -> Iterator[tuple[str, str]]:
    measured = settings.measured
    if measured is None:
        return
    assert settings.per_token is not None
    reached = f"{bytes_text(measured * settings.per_token)}/s"
    share = f"{measured / settings.ceiling:.0%} of the ceiling, " if settings.ceiling else ""
    yield "measured", f"{speed(measured)} tokens/s: {share}{reached} are read"


def speed(of: float) -> str:
    """Tokens per second, with as many digits as are worth reading."""
    return f"{of:.0f}" if of >= 100 else f"{of:.3g}"


def _table(found: Iterable[Cell], ceiling: float) -> Iterator[str]:
    """Lines of a table."""
    rows = [("model", "users", "streams", "tokens/s per user", "share of the ceiling")]
    for cell in found:
        share = f"{cell.rate / ceiling:.0%}"
        rows.append((cell.model, cell.concurrency, str(len(cell.rates)), speed(cell.rate), share))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        padded = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *padded])
