"""`tokometer ceiling`: the most that one user can get, and the share of it that was measured."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.devices import Device, device
from proxy.dials import Dials, Memory, parameters
from proxy.layers import laid
from proxy.logged import Cell, cells
from proxy.quantities import bandwidth, bytes_text, decimal, duration
from proxy.settings import SettingError, setting
from proxy.weights import Weights, weights

# People read 238 words of English a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), and a
# word is about one and a quarter tokens.
WORDS_PER_MINUTE = 238
READING_SPEED = 5.0  # tokens per second
_WAYS = (("size",), ("weights",), ("parameters", "bits"))


def _memory(text: str) -> Memory:
    per_second = bandwidth(text)
    if not per_second:
        raise ValueError(f"{text!r} will not do: give a bandwidth such as 150GB/s or 3.35TB/s")
    return Memory(per_second)


def _measured(text: str) -> float:
    """Tokens per second, also of a time per token such as `14ms`."""
    rate, seconds = decimal(text), duration(text)
    if rate is None and seconds:
        rate = 1 / seconds
    if not rate or rate < 0:
        raise ValueError(f"{text!r} will not do: give tokens per second, or a time such as 14ms")
    return rate


@dataclass(frozen=True)
class CeilingSettings:
    """What the arithmetic is about."""

    bandwidth: Memory | None = setting(
        None, unit="BYTES/S", shown="none", parse=_memory, help="memory bandwidth, such as 150GB/s"
    )
    device: Device | None = setting(
        None, unit="NAME", shown="none", parse=device, help="that of a known device, such as H200"
    )
    devices: int = setting(1, least=1, help="devices that hold the model together")
    size: int | None = setting(
        None,
        unit="bytes",
        least=1,
        shown="none",
        help="what is read for each token, such as 3.3GB: the weights that are active",
    )
    weights: Weights | None = setting(
        None,
        unit="path",
        shown="none",
        parse=weights,
        help="the same, from a GGUF or safetensors file, index or directory",
    )
    parameters: float | None = setting(
        None,
        unit="number",
        shown="none",
        parse=parameters,
        help="the same, from active parameters, such as 7e9 or 7B, and --bits",
    )
    bits: float | None = setting(
        None, least=0.1, most=64, shown="none", help="bits that each of them takes"
    )
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
    dials = _dials(settings)
    if dials.per_token is None or (dials.ceiling is None and settings.measured is None):
        raise SettingError(
            "no ceiling without a bandwidth and a size: give --bandwidth or --device, and --size, "
            "--weights, or --parameters and --bits"
        )
    rows = [*_about(dials), *_compared(dials, settings.measured)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {text}" for name, text in rows]
    if settings.log:
        if dials.ceiling is None:
            raise SettingError("no ceiling to compare a log with: give --bandwidth or --device")
        lines += ["", *_table(cells(settings.log, settings.model), dials.ceiling)]
    print("\n".join(lines))
    return 0


def _dials(settings: CeilingSettings) -> Dials:
    laid(_WAYS, {field: getattr(settings, field) for way in _WAYS for field in way})
    memory = settings.bandwidth
    if settings.device is not None:
        if memory is not None:
            raise SettingError("bandwidth and device say the same thing: leave one of them out")
        memory = Memory(settings.device.bandwidth, settings.device.name)
    return Dials(
        memory_bandwidth=memory,
        devices=settings.devices,
        bytes_per_token=settings.size,
        weights=settings.weights,
        active_parameters=settings.parameters,
        bits_per_weight=settings.bits,
    )


def _about(dials: Dials) -> Iterator[tuple[str, str]]:
    """Rows of what is known before anything is measured."""
    assert dials.per_token is not None
    if (memory := dials.memory_bandwidth) is not None:
        text = f"{bytes_text(memory.bandwidth)}/s"
        if memory.device is not None:
            text += f" ({memory.device}: {device(memory.device).source})"
        yield "memory bandwidth", f"{dials.devices} x {text}" if dials.devices > 1 else text
    yield "read per token", bytes_text(dials.per_token) + _note(dials.weights)
    if dials.ceiling is not None and dials.bandwidth is not None:
        what = f"{bytes_text(dials.bandwidth)}/s / {bytes_text(dials.per_token)}"
        rough = f"{dials.ceiling:.0f}" if dials.ceiling >= 20 else f"{dials.ceiling:.2g}"
        yield "ceiling", f"{rough} tokens/s for one user ({what} = {dials.ceiling:.5g})"
        times = dials.ceiling / READING_SPEED
        yield (
            "reading speed",
            f"{READING_SPEED:.0f} tokens/s ({WORDS_PER_MINUTE} words a minute): the ceiling is "
            f"{speed(times)} times that",
        )


def _note(found: Weights | None) -> str:
    if found is None or not found.note:
        return ""
    return f" of {bytes_text(found.total)} ({found.note})"


def _compared(dials: Dials, measured: float | None) -> Iterator[tuple[str, str]]:
    if measured is None:
        return
    assert dials.per_token is not None
    reached = f"{bytes_text(measured * dials.per_token)}/s"
    share = f"{measured / dials.ceiling:.0%} of the ceiling, " if dials.ceiling else ""
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
