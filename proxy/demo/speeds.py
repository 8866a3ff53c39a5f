"""The proxy's speeds as lines of text: now, from two scrapes, and at the end, from the last one."""

from proxy.scrape import Scrape, quantile, since

TTFT = "tokometer_time_to_first_token_seconds"
DECODE = "tokometer_decode_tokens_per_second"
TOKENS = "tokometer_output_tokens_total"
REQUESTS = "tokometer_requests_total"
# Outcomes that are nobody's fault; every other one is an error.
FAULTLESS = ("completed", "client_closed")

HEAD = (
    "model",
    "requests",
    "TTFT p50",
    "TTFT p95",
    "decode p50, tokens/s",
    "tokens",
    "abandoned",
    "errors",
)
WIDTHS = (12, 8, 8, 8, 20, 8, 9, 6)


def live_line(window: Scrape, before: Scrape, now: Scrape) -> str:
    """Speeds of this moment.

    `before` is the scrape before `now`; `window` is an earlier one, for what needs more samples:
    the medians are of all that was observed since.
    """
    tokens = (now.total(TOKENS) - before.total(TOKENS)) / (now.at - before.at)
    ttft = quantile(0.5, since(window.buckets(TTFT), now.buckets(TTFT)))
    decode = quantile(0.5, since(window.buckets(DECODE), now.buckets(DECODE)))
    return (
        f"{now.total('tokometer_streams'):3.0f} streams  {tokens:5.0f} tokens/s"
        f"  TTFT p50 {_seconds(ttft):>6}  decode p50 {_rate(decode):>3} tokens/s per user"
        f"  requests {now.total(REQUESTS):.0f}  errors {_errors(now):.0f}"
    )


def summary(last: Scrape) -> list[str]:
    """A table by model of all that the proxy has seen since it started."""
    models = sorted(last.values(REQUESTS, "model"))
    rows = [_row(last, model) for model in models if last.total(REQUESTS, model=model)]
    return [_aligned(row) for row in (HEAD, *rows)]


def _row(last: Scrape, model: str) -> tuple[str, ...]:
    ttft = last.buckets(TTFT, model=model)
    return (
        model,
        f"{last.total(REQUESTS, model=model):.0f}",
        _seconds(quantile(0.5, ttft)),
        _seconds(quantile(0.95, ttft)),
        _rate(quantile(0.5, last.buckets(DECODE, model=model))),
        f"{last.total(TOKENS, model=model):.0f}",
        f"{last.total(REQUESTS, model=model, outcome='client_closed'):.0f}",
        f"{_errors(last, model=model):.0f}",
    )


def _aligned(row: tuple[str, ...]) -> str:
    first, *others = (cell.rjust(width) for cell, width in zip(row, WIDTHS, strict=True))
    return "  ".join([first.strip().ljust(WIDTHS[0]), *others])


def _errors(scrape: Scrape, **labels: str) -> float:
    """Exchanges that ended otherwise than they should."""
    fine = sum(scrape.total(REQUESTS, outcome=outcome, **labels) for outcome in FAULTLESS)
    return scrape.total(REQUESTS, **labels) - fine


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.0f} ms"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
