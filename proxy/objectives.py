"""Objectives of speed, and which exchanges met them: goodput.

What counts, for each objective that is set:

- `ttft`: each stream whose time to first token was observed, however it ended, and as missed each
  that failed or was left by its client after a longer time without output.
- `tpot`: each completed stream that has a decode rate.
- `duration`: each completed exchange, and as missed each that its client left after a longer time.
- `all`: completed exchanges, met if they missed nothing that could be measured. Failures of the
  server (5xx, 429, unreachable, timeout, truncated, an error in mid-answer, cut by the proxy) are
  not met. Other 4xx are the client's own, a request that broke off or stalled among them, and
  count nowhere; nor does a client that left while nothing was missed. Where only `ttft` and
  `tpot` are set, what is no stream does not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from proxy.channel import End
from proxy.layers import Layer, by_model, laid
from proxy.settings import SettingError, from_file, setting, settings_of

ALL = "all"
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class Objectives:
    """What a user shall get, seconds; None is no objective. The fields are settings."""

    ttft: float | None = setting(
        None,
        name="objective_ttft",
        unit="seconds",
        least=0.001,
        help="time to first token that a stream shall not exceed",
    )
    tpot: float | None = setting(
        None,
        name="objective_tpot",
        unit="seconds",
        least=0.000001,
        help="time per output token that a stream shall not exceed",
    )
    tokens_per_second: float | None = setting(
        None,
        name="objective_tokens_per_second",
        least=0.001,
        help="the same as a decode rate that it shall reach",
    )
    duration: float | None = setting(
        None,
        name="objective_duration",
        unit="seconds",
        least=0.001,
        help="duration that an exchange shall not exceed",
    )

    def limits(self) -> dict[str, float]:
        """Seconds by name of the objective, of those that are set."""
        tpot = 1 / self.tokens_per_second if self.tokens_per_second else self.tpot
        limits = {"ttft": self.ttft, "tpot": tpot, "duration": self.duration}
        return {name: limit for name, limit in limits.items() if limit is not None}


SETTINGS = settings_of(Objectives)
FIELDS = frozenset(one.name for one in fields(Objectives))
_IN_TABLE = [replace(one, name=one.field) for one in SETTINGS]
WAYS = (("tpot",), ("tokens_per_second",))


@dataclass(frozen=True)
class ObjectiveTable:
    """The objectives by model, named as the label `model` has it."""

    everywhere: Layer = field(default_factory=dict)
    models: Mapping[str, Layer] = field(default_factory=dict)

    def of(self, model: str) -> Objectives:
        """Raises SettingError where one is given in two ways."""
        return Objectives(**laid(WAYS, self.everywhere, self.models.get(model, {})))

    def check(self) -> None:
        """Raises SettingError where one is given in two ways."""
        for model in ("", *self.models):
            try:
                self.of(model)
            except SettingError as error:
                of = "objectives" + f'."{model}"' * bool(model)
                raise SettingError(f"{of}: {error}") from None


NO_OBJECTIVES = ObjectiveTable()


def of_file(table: object, path: Path) -> tuple[Layer, dict[str, Layer]]:
    """The `[objectives]` table: what holds for all, and for single models. Raises SettingError."""
    if not isinstance(table, dict):
        raise SettingError(f"objectives in {path}: give a table, such as [objectives] ttft = 0.5")
    own = {key: raw for key, raw in table.items() if not isinstance(raw, dict)}
    models: dict[str, Any] = {key: raw for key, raw in table.items() if isinstance(raw, dict)}
    return from_file(_IN_TABLE, own, path, "objectives."), {
        model: from_file(_IN_TABLE, of, path, f'objectives."{model}".')
        for model, of in by_model(models, f"objectives in {path}").items()
    }


def verdicts(
    objectives: Objectives, record: End, asked_stream: bool, waited: float | None
) -> dict[str, bool]:
    """Which objectives an exchange met, by name; one that does not count is absent.

    Args:
        asked_stream: a stream was asked for.
        waited: seconds from the request's last byte to the exchange's end, where known.
    """
    limits = objectives.limits()
    stream = record["stream"] or asked_stream
    if not limits or not (stream or "duration" in limits):
        return {}
    found = dict(_single(limits, record, stream, waited))
    outcome = record["outcome"]
    if outcome == "completed":
        found[ALL] = all(found.values())
    elif outcome == "client_closed":
        if not all(found.values()):
            found[ALL] = False
    elif not _is_clients(record.get("code") or 0):
        found[ALL] = False
    return found


def _is_clients(code: int) -> bool:
    """Whether a failure is the client's own doing; having no room for it is the server's."""
    return 400 <= code < 500 and code != _TOO_MANY_REQUESTS


def _single(
    limits: Mapping[str, float], record: End, stream: bool, waited: float | None
) -> Iterator[tuple[str, bool]]:
    completed, left = record["outcome"] == "completed", record["outcome"] == "client_closed"
    ttft, rate = record.get("ttft_seconds"), record.get("decode_tokens_per_second")
    if limit := limits.get("ttft"):
        if ttft is not None:
            yield "ttft", ttft <= limit
        elif stream and not completed and (waited or 0) > limit and _is_without_output(record):
            yield "ttft", False
    if (limit := limits.get("tpot")) and rate and completed:
        yield "tpot", 1 / rate <= limit
    if limit := limits.get("duration"):
        seconds = record.get("duration_seconds") if completed else waited
        if seconds is not None and (completed or (left and seconds > limit)):
            yield "duration", seconds <= limit


def _is_without_output(record: End) -> bool:
    return record["outcome"] != "rejected" and record.get("first_at") is None
