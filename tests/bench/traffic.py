"""The bytes of the benchmark's traffic: what clients ask for and what the upstream answers.

Chunks are those of vLLM's chat completions (version 0.32), about 250 bytes each. The time at which
a chunk was written stands in its text, so that whoever receives it knows how long it was under
way: writer and reader are on one host and share its monotonic clock.
"""

import json
import time

MODEL = "bench"
MODELS = (MODEL, *(f"{MODEL}-{number}" for number in range(100)))  # that the upstream lists
PREFILL_SECONDS = 0.05  # from the request to the first chunk
CLOCK = time.monotonic_ns
WRITTEN = b"~t"  # before the time of writing, nanoseconds
RECEIVED = b"~r"  # before the time at which the upstream had the request; follows the other
DIGITS = 16
DONE = b"data: [DONE]\n\n"

_FRONT = (
    b'data: {"id":"chatcmpl-98774408724a1647","object":"chat.completion.chunk",'
    b'"created":1796054873,"model":"%b",'
)
_CHOICE = (
    b'"choices":[{"index":0,"delta":{"content":" ~t%%016d~r%%016d"},"logprobs":null,'
    b'"finish_reason":%b,"token_ids":null}]}\n\n'
)
_ROLE = (
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
    b'"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}\n\n'
)
_USAGE = (
    b'"choices":[],"usage":{"prompt_tokens":21,"total_tokens":%d,"completion_tokens":%d,'
    b'"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"vllm-0.32.0"}\n\n'
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def frame(data: bytes) -> bytes:
    """One chunk of HTTP/1.1's chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Script:
    """The chunks of one stream, framed.

    `content` and `finish` take two times to be filled in: of writing, and of the request.
    """

    def __init__(self, model: str) -> None:
        self._front = _FRONT % model.encode()
        self.role = frame(self._front + _ROLE)
        self.content = self._timed(b"null")
        self.finish = self._timed(b'"length"')
        self.done = frame(DONE) + b"0\r\n\r\n"

    def _timed(self, finish: bytes) -> bytes:
        template = self._front.replace(b"%", b"%%") + _CHOICE % finish
        return b"%x\r\n%b\r\n" % (len(template % (0, 0)), template)

    def usage(self, tokens: int) -> bytes:
        """The event that a client gets who asks for usage."""
        return frame(self._front + _USAGE % (21 + tokens, tokens))


def whole_answer(model: str) -> bytes:
    """A small answer in one piece, about 700 bytes."""
    body = json.dumps(
        {
            "id": "chatcmpl-acdf0d475b1011a5",
            "object": "chat.completion",
            "created": 1796054890,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "word " * 12, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "length",
                    "stop_reason": None,
                }
            ],
            "system_fingerprint": "vllm-0.32.0-291d6dfe",
            "usage": {"prompt_tokens": 21, "total_tokens": 33, "completion_tokens": 12},
        }
    ).encode()
    return json_answer(body)


def json_answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A JSON answer with its head."""
    head = (
        b"HTTP/1.1 %b\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n"
    )
    return head % (status, len(body)) + body


def chat_body(
    *,
    chunks: int = 12,
    interval: float = 0.0,
    stream: bool = True,
    model: str = MODEL,
    in_step: bool = False,
) -> bytes:
    """A request for `chunks` chunks, one every `interval` seconds (0: as fast as they are taken).

    The upstream reads them out of `max_tokens` and `seed` (microseconds), which every proxy
    passes on; `in_step` is the upstream's own and passed on by those that leave bodies alone.
    """
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": "How fast is this server today? " * 8}],
        "max_tokens": chunks,
        "seed": round(interval * 1e6),
        "temperature": 0.7,
    }
    if stream:
        body["stream"] = True
    if in_step:
        body["in_step"] = True
    return json.dumps(body).encode()


def post(path: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """A POST with a JSON body."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: bench.local",
        "Content-Type: application/json",
        "Authorization: Bearer sk-bench",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CHAT = "/v1/chat/completions"
