"""The keeper: a process of its own that makes metrics, health and the request log of records."""

import asyncio
import contextlib
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import uvicorn
from prometheus_client.core import Metric
from starlette.types import ASGIApp

from proxy.admin import admin
from proxy.adminport import AdminProtocol, Bounds
from proxy.channel import Begin, Dropped, End, Output, Refused, State
from proxy.delivery import Delivery
from proxy.dials import NO_DIALS, DialTable
from proxy.goodput import Goodput
from proxy.guard import Guard
from proxy.journal import Journal
from proxy.labels import PHASES, Models, clean
from proxy.live import Exchange, Follower, Live
from proxy.metrics import Metrics
from proxy.nameplate import Nameplate
from proxy.notices import place, report, say
from proxy.objectives import NO_OBJECTIVES, ObjectiveTable
from proxy.receiver import Receiver
from proxy.standing import Standing
from proxy.tally import Tally
from proxy.tasks import Tasks
from proxy.users import Users

Clock = Callable[[], float]


class Keeper:
    """Takes what workers tell and keeps it.

    Args:
        upstreams: names, so that their series are there before the first request.
        max_models: values of the label `model`.
        stall_seconds: a longer silence is a stall.
        buckets: bounds by histogram; ValueError (one line) if one is for no histogram.
        log_path: of the request log, `-` for standard output, None for no log; OSError if it
            cannot be opened.
        clock: the monotonic clock of the records' times.
        max_users: values of the label `user`, None for no metrics by user.
        task_key: the key of records that calls of a task share, None for no metrics of tasks.
        task_quiet: a task is over when it was quiet for so many seconds.
        exporter: another one that shall know of exchanges.
        dials, objectives: what the settings say of models.
    """

    def __init__(
        self,
        *,
        upstreams: Sequence[str],
        max_models: int,
        stall_seconds: float,
        buckets: Mapping[str, Sequence[float]],
        log_path: str | None,
        clock: Clock = time.monotonic,
        max_users: int | None = None,
        task_key: Literal["trace_id", "task"] | None = None,
        task_quiet: float = 60.0,
        exporter: Follower | None = None,
        dials: DialTable = NO_DIALS,
        objectives: ObjectiveTable = NO_OBJECTIVES,
    ) -> None:
        self._metrics = Metrics(buckets)
        self._followers: list[Follower] = [
            Delivery(self._metrics, stall_seconds),
            Goodput(self._metrics, objectives),
            Nameplate(self._metrics, dials),
        ]
        if exporter is not None:
            self._followers.append(exporter)
        if max_users is not None:
            self._followers.append(Users(self._metrics, max_users))
        else:
            self._metrics.leave_out("tokometer_user_")
        if task_key is not None:
            self._followers.append(Tasks(self._metrics, task_key, task_quiet, clock))
        else:
            self._metrics.leave_out("tokometer_task_")
        overflow = self._metrics.label_overflow.of("model")
        self._models = Models(max_models, partial(overflow.add, 1))
        self._live = Live(self._models)
        self._tally = Tally(self._metrics)
        self._standing = Standing(self._metrics, self._models)
        self._journal = Journal(log_path) if log_path is not None else None
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._workers: dict[int, str] = {}  # state by connection
        self._complained = False
        self._take: dict[str, Callable[[int, Any], None]] = {
            "begin": self._begin,
            "output": self._output,
            "end": self._end,
            "connected": lambda _, record: self._standing.connected(record),
            "identity": lambda _, record: self._standing.identity(record),
            "probed": lambda _, record: self._standing.probed(record),
            "sung": lambda _, record: self._standing.sung(record),
            "refused": self._refused,
            "delays": lambda _, record: self._tally.delays(record),
            "state": self._state,
            "dropped": self._dropped,
        }
        for upstream in upstreams:
            self._tally.know(upstream)

    def take(self, connection: int, records: Sequence[Mapping[str, object]]) -> None:
        """A batch of records from a worker. One that cannot be read is counted and passed over."""
        for record in records:
            try:
                self._take[str(record["kind"])](connection, record)
            except Exception as error:  # whatever is wrong with it, the next one counts
                self._misread(error)
        if self._journal is not None:
            self._journal.flush()

    def lost(self, connection: int) -> None:
        """A worker is gone, and with it its exchanges."""
        now = self._clock()
        self._workers.pop(connection, None)
        self.take(connection, self._live.lost(connection, now))
        self._live.forget(connection, (), now)

    def collect(self) -> list[Metric]:
        """A copy of all metrics, as they are now."""
        for follower in self._followers:
            follower.collect()
        metrics, models = self._metrics, self._tally.models()
        none = dict.fromkeys(((*model, phase) for model in models for phase in PHASES), 0)
        metrics.streams.replace(none | self._live.phases())
        stalled = self._live.stalled(self._clock(), self._stall_seconds)
        metrics.streams_stalled.replace(dict.fromkeys(models, 0) | stalled)
        states = Counter(self._workers.values())
        metrics.workers.replace({(state,): states[state] for state in ("ready", "draining")})
        if self._journal is not None:
            lost = metrics.log_lines_lost.of()
            lost.add(self._journal.lost - lost.value)
        return metrics.collect()

    def unready(self) -> str | None:
        """Why no request should be sent here; None if a worker takes some."""
        states = self._workers.values()
        if "ready" in states:
            return None
        return "draining" if states else "no worker is connected"

    async def serve(
        self, admin_socket: socket.socket, channel_socket: socket.socket, guard: Guard
    ) -> None:
        """Serve both listening sockets until SIGTERM, then take what is still on its way.

        SIGHUP opens the request log anew and has the guard take its token. SIGINT is for the
        supervisor: Ctrl-C reaches every process of a terminal, and the workers still have
        something to tell.
        """
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(report)
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGQUIT, stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGHUP, self._reopen, guard)
        self._reopen(guard)  # until now SIGHUP was ignored
        receiver = Receiver(self.take, self.lost)
        await receiver.start(channel_socket)
        server = _Server(_uvicorn(guard.around(admin(self.collect, self.unready))))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[admin_socket]))
            await stop.wait()
            await receiver.drain()
            server.should_exit = True
        receiver.close()
        if self._journal is not None:
            self._journal.close()
        for follower in self._followers:
            follower.close()

    def _begin(self, connection: int, record: Begin) -> None:
        exchange = self._live.begin(connection, record)
        if exchange is not None:
            self._tally.expect(exchange, self._live.label(exchange))
            for follower in self._followers:
                follower.begin(exchange)

    def _output(self, connection: int, record: Output) -> None:
        exchange = self._live.find(connection, record["id"])
        if exchange is None:
            return  # its begin was dropped; its end tells all
        self._answered(exchange, record.get("model") or "")
        if "first_at" in record:
            self._live.streams(exchange)
        self._tally.output(exchange, record)
        for follower in self._followers:
            follower.output(exchange, record)
        exchange.take(record)

    def _end(self, connection: int, record: End) -> None:
        exchange = self._live.find(connection, record["id"])
        beside = None
        if exchange is not None:
            if record.get("answered"):
                self._answered(exchange, record.get("model") or "")
            beside = self._live.end(exchange, record)
        label = self._label(record, exchange)
        self._tally.end(label, record, exchange, beside)
        for follower in self._followers:
            follower.end(exchange, label, record)
        if self._journal is not None:
            at_arrival, decoding = beside or (None, None)
            self._journal.add(record, at_arrival, decoding)

    def _refused(self, connection: int, record: Refused) -> None:
        self._tally.refused(record)
        if self._journal is not None:
            self._journal.add(record, None)

    def _answered(self, exchange: Exchange, model: str) -> None:
        """A 2xx names its model; mostly it has done so before."""
        if exchange.answered == model:
            return
        before = exchange.label
        self._live.answer(exchange, model)
        if exchange.label != before:
            self._tally.relabel(exchange, before)
        self._tally.expect(exchange, exchange.label)

    def _label(self, record: End, exchange: Exchange | None) -> str:
        if exchange is not None:
            return self._live.label(exchange)
        upstream, model = record["upstream"], clean(record.get("model") or "")
        if record.get("answered"):
            return self._models.learn(upstream, model, model)
        return self._models.label(upstream, model)

    def _state(self, connection: int, record: State) -> None:
        self._workers[connection] = record["state"]

    def _dropped(self, connection: int, record: Dropped) -> None:
        self._metrics.records_dropped.of().add(record["records"])
        self._live.forget(connection, record["in_flight"], self._clock())
        for follower in self._followers:
            follower.recount(self._live)

    def _misread(self, error: Exception) -> None:
        if not self._complained:
            say(
                f"a record of a worker could not be read: {place(error)}; "
                "more of them are only counted"
            )
        self._complained = True
        self._metrics.records_dropped.of().add(1)

    def _reopen(self, guard: Guard) -> None:
        guard.reload()
        if self._journal is not None:
            self._journal.reopen()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the keeper has something to do before it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(AdminProtocol, bounds=Bounds.of_process())),
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
