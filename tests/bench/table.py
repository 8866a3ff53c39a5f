"""Results as tables to read."""

from collections.abc import Callable, Sequence

from . import accounting
from .plan import Plan
from .results import DISTURBED_SHARE, Results

DIRECT = "direct"
Cell = Callable[[str], float | None]  # by the proxy's name


def tables(results: Results, plan: Plan) -> str:
    """All of them, one below the other."""
    parts = [_streams(results, load.name, load.streams) for load in plan.streams]
    parts += [_requests(results, load.name) for load in plan.requests]
    parts += [_bodies(results), _own(results), _notes(results)]
    return "\n\n".join(part for part in parts if part)


def _streams(results: Results, scene: str, streams: int) -> str:
    get = _getter(results, scene)
    columns: dict[str, tuple[Cell, str]] = {
        **_cost(results, scene, "cpu_us_per_chunk"),
        "delay p50": (get("delay_p50_us"), ".0f"),
        "p99": (get("delay_p99_us"), ".0f"),
        "added p50": (_added(get("delay_p50_us")), "+.0f"),
        "added p99": (_added(get("delay_p99_us")), "+.0f"),
        "TTFT+ p50": (_added(get("ttft_p50_us")), "+.0f"),
        "TTFT+ p99": (_added(get("ttft_p99_us")), "+.0f"),
        "quiet p99": (_added(get("quiet_ttft_p99_us")), "+.0f"),
        "quiet %": (_percent(get("quiet_share")), ".0f"),
        "lost": (get("lost"), ".0f"),
        "others %": (_percent(get("others_share")), ".0f"),
    }
    if streams >= 500:
        columns["KiB/stream"] = (get("memory_kib_per_stream"), ".1f")
    if streams < 10:  # few chunks: a clock tick is too coarse
        columns["us/chunk (scheduler)"] = (get("cpu_us_per_chunk_scheduled"), ".1f")
    return _table(f"streams {scene} (times in us)", columns, _names(results, scene))


def _requests(results: Results, scene: str) -> str:
    get = _getter(results, scene)
    columns: dict[str, tuple[Cell, str]] = {
        **_cost(results, scene, "cpu_us_per_request"),
        "p50": (get("latency_p50_us"), ".0f"),
        "p99": (get("latency_p99_us"), ".0f"),
        "added p50": (_added(get("latency_p50_us")), "+.0f"),
        "added p99": (_added(get("latency_p99_us")), "+.0f"),
        "requests/s": (get("requests_per_second"), ".0f"),
        "failed": (get("failed"), ".0f"),
        "others %": (_percent(get("others_share")), ".0f"),
    }
    title = f"small requests, {scene} connections (times in us)"
    return _table(title, columns, _names(results, scene))


def _bodies(results: Results) -> str:
    columns: dict[str, tuple[Cell, str]] = {}
    for way in ("down", "up"):
        get = _getter(results, f"body {way}")
        rate = get("mb_per_second")
        columns |= {
            f"{way} MB/s": (rate, ".0f"),
            f"{way} x nginx": (_ratio(rate, "nginx"), ".2f"),
            f"{way} cpu s/GB": (get("cpu_seconds_per_gb"), ".2f"),
            f"{way} grew MiB": (get("memory_growth_mib"), "+.1f"),
            f"{way} failed": (get("failed"), ".0f"),
        }
    columns["ready s"] = (_getter(results, "start")("ready_seconds"), ".2f")
    names = [name for name in results.rounds if name != DIRECT]
    return _table("large bodies, and start", columns, [DIRECT, *names])


def _own(results: Results) -> str:
    lines = []
    for scene, samples in results.rounds.get("tokometer", {}).items():
        if scene.startswith(("truth", "scrape", "workers")):
            figures = [(key, results.get("tokometer", scene, key)) for key in samples[0]]
            said = ", ".join(f"{key} {value:.4g}" for key, value in figures if value is not None)
            lines.append(f"tokometer, {scene}: {said}")
    return "\n".join(lines)


def _notes(results: Results) -> str:
    tick = accounting.TICK_SECONDS * 1e3
    lines = [
        "processor time: utime + stime of /proc/PID/stat of all its processes, counted in ticks of "
        f"{tick:g} ms: over 20,000 chunks a tick is {tick * 1e3 / 20_000:g} us each, "
        f"over 2,000 requests {tick * 1e3 / 2000:g} us",
        "added: over the direct row; TTFT+: TTFT without the upstream's own time, over direct's",
        "quiet: TTFT+ p99 of the streams that began while the hypervisor took no processor away, "
        "and how many these are",
        f"others %: processor time of the host taken by what is not measured; over "
        f"{DISTURBED_SHARE:.0%} the times mean little",
    ]
    lines += [f"skipped {name}: {why}" for name, why in results.skipped.items()]
    return "\n".join(lines)


# --- cells --------------------------------------------------------------------------------------


def _getter(results: Results, scene: str) -> Callable[[str], Cell]:
    return lambda figure: lambda name: results.get(name, scene, figure)


def _cost(results: Results, scene: str, figure: str) -> dict[str, tuple[Cell, str]]:
    cost = _getter(results, scene)(figure)
    unit = figure.rpartition("_")[2]
    return {
        f"us/{unit}": (cost, ".1f"),
        "x nginx": (_ratio(cost, "nginx"), ".2f"),
        "x envoy": (_ratio(cost, "envoy"), ".2f"),
    }


def _ratio(cell: Cell, to: str) -> Cell:
    def ratio(name: str) -> float | None:
        value, base = cell(name), cell(to)
        return value / base if value is not None and base else None

    return ratio


def _added(cell: Cell) -> Cell:
    def added(name: str) -> float | None:
        value, base = cell(name), cell(DIRECT)
        return None if value is None or base is None or name == DIRECT else value - base

    return added


def _percent(cell: Cell) -> Cell:
    def percent(name: str) -> float | None:
        value = cell(name)
        return None if value is None else value * 100

    return percent


def _names(results: Results, scene: str) -> list[str]:
    return [name for name, scenes in results.rounds.items() if scene in scenes]


def _table(title: str, columns: dict[str, tuple[Cell, str]], names: Sequence[str]) -> str:
    rows = [["", *columns]]
    for name in names:
        cells = [cell(name) for cell, _ in columns.values()]
        if all(cell is None for cell in cells):
            continue
        forms = [form for _, form in columns.values()]
        rows.append(
            [name, *("-" if c is None else format(c, f) for c, f in zip(cells, forms, strict=True))]
        )
    if len(rows) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join([title, *lines])
