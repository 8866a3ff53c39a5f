"""The admin port's connections: uvicorn's, with bounds to what each may hold and how long.

Who can connect has not shown a token yet, and the keeper must not be lost to them: it has the
metrics.
"""

import asyncio
import resource
from typing import Any, NamedTuple, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proxy.admission import MAX_HEAD_BYTES, MAX_HEADERS

# Prometheus and probes ask one thing at a time.
_MAX_PIPELINED = 8
# For a client that is still sending to read why it was refused.
_LINGER_SECONDS = 2.0
# Two of Prometheus, some probes, some people; each may leave a page in its buffer unread.
_MAX_CONNECTIONS = 128


class Bounds(NamedTuple):
    """How many connections there may be, and how long each may keep us waiting.

    `asking_seconds`: for a whole request, since the connection or the answer before it.
    `reading_seconds`: for an answer that is not taken.
    """

    connections: int
    asking_seconds: float = 10.0
    reading_seconds: float = 60.0

    @classmethod
    def of_process(cls) -> "Bounds":
        """Half of the descriptors that this process may have are for others than readers."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MAX_CONNECTIONS
        return cls(most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // 2)))


class AdminProtocol(HttpToolsProtocol):
    """Refuses long requests and late ones, and makes room for whoever comes."""

    def __init__(self, *args: Any, bounds: Bounds, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._arriving = False  # a request has begun and is not all there
        self._in_body = False
        self._read_bytes = 0  # in reads since the one in which the request began
        self._told_bytes = 0  # of the target, headers and trailers that the parser told of
        self._fault = 400
        self._deaf = False  # nothing that comes is read any more
        self._timer: asyncio.TimerHandle | None = None
        # The loop's time since when the client has to send something, or to read.
        self.waits_since: float | None = None

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        self._read_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # there is nothing else: the answer is in HTTP/1.1
            self._deaf = True
        except httptools.HttpParserError:
            self._refuse(self._fault)
        else:
            if self._arriving and self._read_bytes > MAX_HEAD_BYTES:
                self._refuse(431)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answering():
            self._serve()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._serve()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # --- httptools' side ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving, self._in_body = True, False
        self._read_bytes = self._told_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self._in_body:  # a trailer, which nobody asks for
            return
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            self._stop_parser(431)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_body = True
        if len(self.pipeline) > _MAX_PIPELINED:
            self._stop_parser(400)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._arriving = self._in_body = False
        if self._answering() and not self.flow.write_paused:
            self._serve()

    def on_response_complete(self) -> None:
        """uvicorn's: the next request may be served, or awaited."""
        super().on_response_complete()
        if self._answering() and not self.transport.is_closing():
            return  # the next one of a pipeline
        if self._arriving:
            self._unset_keepalive_if_required()
        if self._deaf:
            self._hang_up()
        else:
            self._wait()

    def _count(self, size: int) -> None:
        self._told_bytes += size
        if self._told_bytes > MAX_HEAD_BYTES:
            self._stop_parser(431)

    def _stop_parser(self, status: int) -> None:
        self._fault = status
        raise ValueError  # which is an HttpParserError then

    # --- whose turn it is -----------------------------------------------------------------------

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _serve(self) -> None:
        """It is our turn."""
        self.waits_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        """It is the client's turn: it has to send a request, to read, or to close."""
        self._serve()
        seconds = _LINGER_SECONDS if self._deaf else self._bounds.asking_seconds
        if self.flow.write_paused:
            seconds = self._bounds.reading_seconds
        self.waits_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self._arriving and not (self._in_body or self._deaf or self._answering()):
            self._refuse(408)
        else:
            self.transport.abort()

    def _refuse(self, status: int) -> None:
        """Read no more, answer what can be answered, and close."""
        self._deaf = True
        if self._answering():
            return
        if not self._in_body:  # else it has its answer, or nobody waits for one
            length = b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + length)
        self._hang_up()

    def _hang_up(self) -> None:
        """Close, though the client may be sending: a reset could overtake the answer."""
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.transport.write_eof()
        self._wait()

    def _make_room(self) -> None:
        """One too many: the one goes that has kept us waiting for the longest."""
        if len(self.connections) <= self._bounds.connections:
            return
        everybody = cast(set[AdminProtocol], self.connections)
        waiting = [one for one in everybody if one.waits_since is not None]
        longest = min(waiting, key=lambda one: one.waits_since or 0.0)
        self.connections.discard(longest)  # at once: the next one may come before it is gone
        longest.transport.abort()
