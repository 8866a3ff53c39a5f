"""The canary: a fixed prompt whose answer is measured like any other, free of the traffic's mix.

It is always the same work (one prompt, temperature 0, so many tokens at most): what changes is the
server. The prompt is soon in the server's prefix cache, and TTFT then that of cached work.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import orjson

from proxy.address import Upstream
from proxy.caller import Caller, pour
from proxy.channel import Sung
from proxy.connection import Clock
from proxy.facts import MOST_NAME_CHARACTERS
from proxy.formats import interface
from proxy.headers import Fields, Pair
from proxy.meter import Meter
from proxy.notices import say
from proxy.outcome import Outcome, verdict
from proxy.scouting import Key, Scouting
from proxy.survey import FAILURES, Survey
from proxy.tokens import Learned

PROMPT = "Count from one to one hundred in words, with commas between them."
_MOST_SECONDS = 300.0
# A server that has no such interface, or not for this model, or not these parameters.
_OTHERWISE = (400, 404, 405, 422, 501)


class Form(NamedTuple):
    """A way to ask: `body` makes the request of the model and of the most output tokens."""

    api: str
    path: str
    body: Callable[[str, int], dict[str, Any]]


class Canary:
    """Sends the prompt to one upstream, in the first form that works there, and then always so.

    Args:
        transport: gives arrival times of `clock`, monotonic seconds.
    """

    def __init__(
        self,
        upstream: Upstream,
        settings: Scouting,
        transport: httpx.AsyncBaseTransport,
        clock: Clock,
    ) -> None:
        self._upstream = upstream.name
        self._settings = settings
        self._clock = clock
        self._seconds = min(settings.canary_interval or math.inf, _MOST_SECONDS)
        self._caller = Caller(upstream, transport)
        listing = Caller(upstream, transport, _credentials(settings.canary_api, settings.key))
        self._survey = Survey(listing, self._seconds)
        self._proven: Form | None = None
        self._asked = settings.canary_model or ""
        self._answered: dict[str, str] = {}  # the model that answered to the one asked for
        self._trouble = ""  # why the last one failed; empty if it did not

    async def sing(self) -> Sung:
        """Ask once. What takes longer than the interval, or five minutes, has failed."""
        meter, before, self._trouble = None, self._trouble, ""
        try:
            async with asyncio.timeout(self._seconds):
                meter = await self._first_that_works(await self._engine())
        except FAILURES as problem:
            self._trouble = str(problem) or f"no whole answer in {self._seconds:g} s"
        if self._trouble and self._trouble != before:
            say(f"canary: upstream {self._upstream}: {self._trouble}")
        record: Sung = {"kind": "sung", "upstream": self._upstream, "success": meter is not None}
        if meter is not None:
            self._answered = {self._asked: meter.model or self._asked}
            rate, _ = meter.decode_rate(meter.totals().output)
            if meter.ttft is not None:
                record["ttft_seconds"] = meter.ttft
            if rate is not None:
                record["decode_tokens_per_second"] = rate
        record["model"] = self._answered.get(self._asked, self._asked)[:MOST_NAME_CHARACTERS]
        return record

    async def _engine(self) -> str:
        """The upstream's engine as far as it matters; `_asked` is set to a model that is there."""
        if self._settings.canary_model and self._proven:
            return ""
        facts = await self._survey.facts(afresh=self._proven is None)
        if not self._settings.canary_model and self._asked not in facts.models:
            # A router also lists patterns, which are nobody's name.
            plain = (name for name in facts.models if "*" not in name)
            self._asked = next(plain, self._asked)
        return facts.engine

    async def _first_that_works(self, engine: str) -> Meter | None:
        trouble = ""
        for form in self._forms(engine):
            status, meter = await self._ask(form)
            if verdict(status, meter) is Outcome.COMPLETED and meter.output.events:
                self._proven = form
                return meter
            trouble = trouble or f"{form.path} answered {status}, and no whole stream of text"
            if status not in _OTHERWISE:
                break
        self._trouble = trouble
        return None

    def _forms(self, engine: str) -> list[Form]:
        likely = "ollama_chat" if engine == "ollama" else ""
        forms = sorted(_FORMS, key=lambda form: (form != self._proven, form.api != likely))
        return [form for form in forms if self._settings.canary_api in ("auto", form.api)]

    async def _ask(self, form: Form) -> tuple[int, Meter]:
        body = form.body(self._asked, self._settings.canary_max_tokens)
        if not self._asked:  # where nothing is listed there may be just one
            del body["model"]
        face = interface(form.path)
        call = face.call(body, form.path)
        meter = Meter(call, call.reader or face.event, Learned(), self._clock(), math.inf)
        credentials = _credentials(form.api, self._settings.key)
        response = await self._caller.post(form.path, orjson.dumps(body), credentials)
        fields = Fields(response.headers.raw)
        kind, encoding = fields[b"content-type"], fields[b"content-encoding"]
        meter.head(response.status_code, kind, encoding, self._clock())
        await pour(response, meter.read)
        meter.end(self._clock())
        return response.status_code, meter


def _credentials(api: str, key: Key) -> list[Pair]:
    """Headers that show `key`, a bare one or one with its scheme (`Basic ...`)."""
    found = [(b"anthropic-version", b"2023-06-01")] if api == "messages" else []
    shown = key.reveal().encode("ascii")
    if b" " in shown:
        found.append((b"Authorization", shown))
    elif shown and api == "messages":
        found.append((b"x-api-key", shown))
    elif shown:
        found.append((b"Authorization", b"Bearer " + shown))
    return found


def _chat(limit: str, **more: Any) -> Callable[[str, int], dict[str, Any]]:
    """Bodies with messages, and with the number of tokens under the name `limit`."""
    return lambda model, tokens: {
        "model": model,
        "messages": _MESSAGES,
        "stream": True,
        limit: tokens,
        **more,
    }


def _ollama(model: str, tokens: int) -> dict[str, Any]:
    options = {"temperature": 0, "num_predict": tokens}
    return {"model": model, "messages": _MESSAGES, "stream": True, "options": options}


def _completions(model: str, tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": PROMPT,
        "stream": True,
        "stream_options": _USAGE,
        "temperature": 0,
        "max_tokens": tokens,
    }


_MESSAGES = [{"role": "user", "content": PROMPT}]
_USAGE = {"include_usage": True}
_CHAT = "/v1/chat/completions"
_FORMS = (
    Form("chat", _CHAT, _chat("max_tokens", temperature=0, stream_options=_USAGE)),
    # As OpenAI's reasoning models want it, which take no temperature.
    Form("chat", _CHAT, _chat("max_completion_tokens", stream_options=_USAGE)),
    # Servers that refuse to be asked for usage.
    Form("chat", _CHAT, _chat("max_tokens", temperature=0)),
    Form("ollama_chat", "/api/chat", _ollama),
    Form("messages", "/v1/messages", _chat("max_tokens", temperature=0)),
    Form("completions", "/v1/completions", _completions),
)
