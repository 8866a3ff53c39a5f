import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import httpx
import pytest

from engine.rig import running
from proxy.engine import EngineSettings, serve_engine, url
from proxy.settings import SettingError
from proxy.sockets import listen

# A process that does what the command does; its answers last for minutes.
SERVE = """
import sys
from proxy.engine import EngineSettings, serve_engine, url
from proxy.sockets import listen
settings = EngineSettings(ttft=0.0, rate=50.0, answer_tokens=10_000, error_rate=float(sys.argv[1]))
sock = listen(settings.host, settings.port)
print(url(sock), flush=True)
try:
    serve_engine(settings, sock)
except KeyboardInterrupt:
    print("interrupted")
"""
CHAT = "/v1/chat/completions"


class Engine(NamedTuple):
    process: subprocess.Popen[str]
    client: httpx.Client


def ask(tokens: int | None = None) -> Any:
    return {"messages": [{"content": "x"}], "stream": True, "max_tokens": tokens}


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    command = [sys.executable, "-c", SERVE, str(getattr(request, "param", 0))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            with httpx.Client(base_url=process.stdout.readline().strip(), timeout=30) as client:
                yield Engine(process, client)
        finally:
            process.kill()


def rest(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.read()


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGTERM, ""), (signal.SIGINT, "interrupted\n")]
)
def test_a_signal_ends_it_in_mid_answer_without_a_word(
    engine: Engine, number: signal.Signals, said: str
) -> None:
    with engine.client.stream("POST", CHAT, json=ask()) as answer:
        parts = answer.iter_raw()
        assert next(parts).startswith(b"data: ")
        engine.process.send_signal(number)
        with pytest.raises(httpx.HTTPError):
            list(parts)
    assert engine.process.wait() == (0 if said else -number)
    assert (rest(engine.process.stdout), rest(engine.process.stderr)) == (said, "")


@pytest.mark.parametrize("engine", [1], indirect=True)
def test_answers_that_are_cut_on_purpose_leave_no_trace_in_the_log(engine: Engine) -> None:
    cut = 0
    for _ in range(40):
        try:
            engine.client.post(CHAT, json=ask(2))
        except httpx.RemoteProtocolError:
            cut += 1
    engine.process.terminate()
    engine.process.wait()
    assert cut > 0
    assert rest(engine.process.stderr) == ""


def test_a_client_that_leaves_frees_its_place() -> None:
    settings = EngineSettings(ttft=0, rate=50, answer_tokens=10_000, max_concurrency=1)
    with running(settings) as address, httpx.Client(base_url=address, timeout=30) as client:
        with client.stream("POST", CHAT, json=ask()) as answer:
            next(answer.iter_raw())
        # The first answer would go on for minutes.
        assert "[DONE]" in client.post(CHAT, json=ask(2)).text


def test_a_listening_socket_is_told_as_a_url() -> None:
    with listen("127.0.0.1", 0) as sock:
        assert url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_an_ipv6_address_is_told_in_brackets() -> None:
    try:
        sock = listen("::1", 0)
    except SettingError:
        pytest.skip("no IPv6 on this machine")
    with sock:
        assert url(sock) == f"http://[::1]:{sock.getsockname()[1]}"


def test_without_a_socket_it_listens_where_the_settings_say() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(SettingError, match="in use"):
        serve_engine(EngineSettings(port=taken.getsockname()[1]))
