"""Secrets are planted in every place, and nothing that comes out may hold one."""

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from serve_rig import PATIENCE, Proxy, children, eventually, serving

# Each place has one of its own, so that a failure names it.
PLACES = [
    *("bearer", "apikey", "cookie", "header", "query", "userinfo", "path", "prompt", "tool"),
    *("user", "answer", "reasoning", "arguments", "set-cookie", "error", "garbage", "token"),
    *("upload", "name"),
]


def secret(place: str) -> str:
    assert place in PLACES
    return f"s3cr3t-{place}-0123456789"


EVENTS = "".join(
    f"data: {json.dumps({'model': 'm', 'choices': [{'index': 0, 'delta': delta}]})}\n\n"
    for delta in (
        {"reasoning_content": secret("reasoning")},
        {"content": secret("answer")},
        {"tool_calls": [{"index": 0, "function": {"arguments": secret("arguments")}}]},
    )
)


class Leaky(BaseHTTPRequestHandler):
    """Says secrets in answers of every kind."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.path.partition("?kind=")[2].partition("&")[0]
        if kind == "garbage":
            self.wfile.write(
                f"HTTP/1.1 {secret('garbage')} OK\r\nBad {secret('garbage')}\r\n".encode()
            )
            self.close_connection = True
            return
        body, status = f"{EVENTS}data: [DONE]\n\n", 200
        if kind == "error":
            body, status = json.dumps({"error": {"message": secret("error")}}), 500
        elif kind == "midway":
            body = EVENTS + f"data: {json.dumps({'error': {'message': secret('error')}})}\n\n"
        elif kind == "broken":
            body = EVENTS + f"data: {{not JSON {secret('answer')}\n\n"
        self.send_response(status)
        self.send_header(
            "Content-Type", "text/event-stream" if status == 200 else "application/json"
        )
        self.send_header("Set-Cookie", secret("set-cookie"))
        self.send_header("Content-Length", str(len(body) + 50 * (kind == "cut")))
        self.end_headers()
        self.wfile.write(body.encode())
        self.close_connection = kind == "cut"

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Leaky) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


HEADERS = {
    "Authorization": f"Bearer {secret('bearer')}",
    "X-Api-Key": secret("apikey"),
    "Cookie": f"session={secret('cookie')}",
    "X-Anything": secret("header"),
    "Content-Type": "application/json",
}
BODY = {
    "model": "m",
    "stream": True,
    "user": secret("user"),
    "messages": [{"role": "user", "name": secret("name"), "content": secret("prompt")}],
    "tools": [{"type": "function", "function": {"name": secret("tool")}}],
}
KINDS = ["fine", "error", "midway", "broken", "cut", "garbage"]


def exchanges(port: int) -> str:
    """All kinds of them; what the proxy itself answered to those that it refused."""
    query = f"&key={secret('query')}"
    for kind in KINDS:
        for path in ("/v1/chat/completions", f"/v1/files/{secret('path')}"):
            ask(port, "POST", f"{path}?kind={kind}{query}", json.dumps(BODY).encode())
    refused = [
        ask(port, "POST", f"/dead?key={secret('query')}", json.dumps(BODY).encode()),
        ask(port, "GET", f"ftp://me:{secret('userinfo')}@host/{secret('path')}", b""),
        ask(port, "GET", f"http://me:{secret('userinfo')}@host/?kind=garbage{query}", b""),
        ask(port, "GET", f"/{secret('path')}?kind=garbage{query}", b""),
        raw(port, f"{secret('garbage')} nothing\r\n{secret('garbage')}\r\n\r\n"),
        raw(port, f"GET / HTTP/1.1\r\nHost: {secret('header')} {secret('header')}\r\n\r\n"),
        raw(port, f"GET / HTTP/1.1\r\nHost: a\r\nX: {secret('header') * 9000}\r\n\r\n"),
    ]
    raw(port, "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n" + secret("upload"))
    return "\n".join(refused)


def ask(port: int, method: str, target: str, body: bytes) -> str:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(client), contextlib.suppress(http.client.HTTPException, OSError):
        client.request(method, target, body, HEADERS)
        answer = client.getresponse()
        return f"{answer.headers}{answer.read().decode()}"
    return ""


def raw(port: int, text: str) -> str:
    """What comes back; the client closes its half at once."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        said = b""
        with contextlib.suppress(OSError):
            client.sendall(text.encode())
            client.shutdown(socket.SHUT_WR)
            while data := client.recv(10_000):
                said += data
        return said.decode()


def pages(proxy: Proxy, token: str) -> str:
    """All that the admin listener tells."""
    found = []
    for path in ("/", "/metrics", "/healthz", "/readyz", "/config", "/api/live", "/none"):
        for shown, accept in ((token, "application/openmetrics-text"), ("none", "text/plain")):
            headers = {"Accept": f"{accept}; version=1.0.0", "Authorization": f"Bearer {shown}"}
            client = http.client.HTTPConnection("127.0.0.1", proxy.admin_port, timeout=PATIENCE)
            with contextlib.closing(client):
                client.request("GET", path, headers=headers)
                answer = client.getresponse()
                found.append(f"{answer.headers}{answer.read().decode()}")
    return "\n".join(found)


def shown_by_the_system(proxy: Proxy) -> str:
    pids = [proxy.process.pid, *children(proxy.process.pid)]
    return "\n".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)


# What could quote what it works on, if it failed.
BREAKING = """
import sys
def breaking(owner, name):
    def broken(*given, **named):
        raise ValueError(f"{given} {named} {[vars(g) for g in given if hasattr(g, '__dict__')]}")
    setattr(owner, name, broken)
WHAT
from proxy.cli import main
sys.exit(main())
"""
ANSWER = "import proxy.meter as m; breaking(m.Meter, 'read');"
LINE = "import proxy.journal as m; breaking(m, 'line');"
WRITING = "import proxy.journal as m; breaking(m.Journal, '_write');"
SCRAPE = "import proxy.keeper as m; breaking(m.Keeper, 'collect');"
GUARD = "import proxy.guard as m; breaking(m, 'shows');"
TALLY = "import proxy.tally as m; breaking(m.Tally, 'end');"
BROKEN = {
    "nothing": "",
    "reading an answer, a line of the log": ANSWER + LINE,
    "routing": "import proxy.relay as m; breaking(m, 'route')",
    "reading a request, a scrape": "import proxy.relay as m; breaking(m, '_call');" + SCRAPE,
    "sending, the guard": "import proxy.asking as m; breaking(m.Asker, 'ask');" + GUARD,
    "the head of an answer": "import proxy.relay as m; breaking(m, 'to_client')",
    "the end of an exchange": "import proxy.exchange as m; breaking(m.Exchange, 'end')",
    "the tally, the writing of the log": TALLY + WRITING,
}


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="needs /proc")
@pytest.mark.parametrize("broken", BROKEN)
def test_no_secret_comes_out_whatever_breaks(upstream: str, tmp_path: Path, broken: str) -> None:
    log, token = tmp_path / "log", tmp_path / "token"
    token.write_text(secret("token"))
    settings = tmp_path / "tokometer.toml"
    settings.write_text(
        f'upstream = "{upstream}"\nadmin_token_file = "{token}"\n'
        'upstreams.dead = {url = "http://127.0.0.1:9", prefix = "/dead"}\n'
    )
    program = ("-c", BREAKING.replace("WHAT", BROKEN[broken]))
    arguments = ("--config", str(settings), "--log-requests", str(log))
    said = tmp_path / "said"
    with said.open("wb") as stderr, serving(*arguments, program=program, stderr=stderr) as proxy:
        assert eventually(lambda: b"metrics http" in said.read_bytes())
        proxy.ports(said.read_text())
        out = exchanges(proxy.port)
        if broken == "nothing":
            assert eventually(lambda: log.read_text().count("\n") >= 2 * len(KINDS))
        out += pages(proxy, secret("token"))
        out += shown_by_the_system(proxy)
        proxy.signal()
        assert proxy.process.wait(PATIENCE) in (0, 128 + signal.SIGTERM)
    out += said.read_text() + log.read_text()
    assert [place for place in PLACES if secret(place) in out] == []
    assert "s3cr3t" not in out
    if broken != "nothing":
        assert "ValueError" in said.read_text()  # it did break, and was told
