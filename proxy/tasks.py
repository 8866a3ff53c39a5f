"""Tasks of agents: how many calls each took, how long it waited for them, what it was told."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from proxy.channel import Begin, End
from proxy.live import Exchange, Follower
from proxy.metrics import Metrics
from proxy.series import Trace

MOST = 10_000  # open tasks, of some 500 bytes


class Task:
    """Calls that belong together; sums over those that have ended, None where nothing is known."""

    __slots__ = ("calls", "quiet_since", "running", "seconds", "tokens")

    def __init__(self) -> None:
        self.running = 0
        self.calls = 0
        self.seconds: float | None = None
        self.tokens: int | None = None
        self.quiet_since = 0.0

    def add(self, record: End) -> None:
        """A call has ended."""
        self.calls += 1
        if (seconds := record.get("duration_seconds")) is not None:
            self.seconds = (self.seconds or 0.0) + seconds
        if (tokens := record.get("output_tokens")) is not None:
            self.tokens = (self.tokens or 0) + tokens


class Tasks(Follower):
    """Observes each task when nothing of it has been in flight for a while.

    Calls are requests to a model, whatever became of them. Time is taken at the keeper, and tasks
    are closed when there is something to do: a call, or somebody who looks at the metrics.

    Args:
        key: the key of a record that calls of a task share.
        quiet_seconds: a task that was quiet for so long is over.
        most: tasks that can be open. One more closes the one that has been quiet for longest; where
            all have calls in flight, there is no room for it.
    """

    def __init__(
        self,
        metrics: Metrics,
        key: Literal["trace_id", "task"],
        quiet_seconds: float,
        clock: Callable[[], float],
        most: int = MOST,
    ) -> None:
        self._metrics = metrics
        self._key = key
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        self._most = most
        self._running: dict[str, Task] = {}
        self._quiet: dict[str, Task] = {}  # the one that has been quiet for longest is first

    def begin(self, exchange: Exchange) -> None:
        self._close_quiet()
        id = self._id(exchange.begun)
        if id and (task := self._open(id)) is not None:
            task.running += 1

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        self._close_quiet()
        id = self._id(record)
        if id and (task := self._open(id)) is not None:
            task.add(record)
            if exchange is not None and task.running:
                task.running -= 1
            self._settle(id, task)

    def recount(self, in_flight: Iterable[Exchange]) -> None:
        running = Counter(self._id(exchange.begun) for exchange in in_flight)
        for id, task in list(self._running.items()):
            task.running = running[id]
            self._settle(id, task)

    def collect(self) -> None:
        self._close_quiet()

    def _id(self, record: Begin | End) -> str | None:
        return None if record["api"] == "other" else record.get(self._key)

    def _open(self, id: str) -> Task | None:
        """The task, now among the running ones; None if there is no room."""
        task = self._running.get(id) or self._quiet.pop(id, None)
        if task is None:
            if len(self._running) + len(self._quiet) >= self._most:
                if not self._quiet:
                    return None
                self._close(next(iter(self._quiet)))
            task = Task()
        self._running[id] = task
        return task

    def _settle(self, id: str, task: Task) -> None:
        """It is quiet if nothing of it runs; one that never made a call never was."""
        if task.running:
            return
        del self._running[id]
        if task.calls:
            task.quiet_since = self._clock()
            self._quiet[id] = task

    def _close_quiet(self) -> None:
        until = self._clock() - self._quiet_seconds
        while self._quiet:
            id, task = next(iter(self._quiet.items()))
            if task.quiet_since > until:
                return
            self._close(id)

    def _close(self, id: str) -> None:
        task = self._quiet.pop(id)
        trace = Trace(id, None) if self._key == "trace_id" else None
        self._metrics.task_calls.of().observe(task.calls, trace)
        if task.seconds is not None:
            self._metrics.task_wait.of().observe(task.seconds, trace)
        if task.tokens is not None:
            self._metrics.task_output_tokens.of().observe(task.tokens, trace)
