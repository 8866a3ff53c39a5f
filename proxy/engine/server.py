"""The simulated engine as a process that listens."""

import logging
import socket

import uvicorn

from proxy.engine.app import build_app
from proxy.engine.exchange import Cut
from proxy.engine.settings import EngineSettings
from proxy.sockets import listen


def url(sock: socket.socket) -> str:
    """Where a listening socket is reached, such as http://127.0.0.1:8000."""
    host, port, *_ = sock.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_engine(settings: EngineSettings, sock: socket.socket | None = None) -> None:
    """Serves until SIGINT, then raises KeyboardInterrupt; or until SIGTERM, then dies of it.

    `sock` listens, and is closed in the end; where there is none, one is made, which raises
    SettingError where the address cannot be had.
    """
    sock = sock or listen(settings.host, settings.port)
    engine_server(settings).run(sockets=[sock])


def engine_server(settings: EngineSettings) -> uvicorn.Server:
    """The server that `serve_engine` runs, for one who wants to end it by `should_exit`."""
    return _Server(
        uvicorn.Config(
            build_app(settings),
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=_LOGGING,
            log_level="warning",
            access_log=False,
            server_header=False,
            headers=[("server", f"tokometer-engine/{settings.release}")],
        )
    )


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Nobody's answer is worth waiting for here, and an open one would hold Ctrl-C back.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)


class _Unplanned(logging.Filter):
    """Keeps to itself what was meant to happen."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], Cut))


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"unplanned": {"()": _Unplanned}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["unplanned"]}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}
