"""Events and their arrival times to TTFT, decode rate and the rest: SPEC of every number we show.

Pure: no clock, no I/O; times come in as seconds of one monotonic clock.
"""

from dataclasses import dataclass

from proxy.formats.event import Call, Event
from proxy.formats.event import Reader as EventReader
from proxy.framing import is_stream
from proxy.gaps import Gaps
from proxy.output import Output
from proxy.reader import Reader
from proxy.template import Template
from proxy.tokens import Counts, Learned, Totals

# Client wait over this share of the decode phase makes the rate the client's, not the server's.
CLIENT_LIMITED = 0.1


@dataclass(slots=True)
class Progress:
    """What moved since the last look at a running stream."""

    tokens: int
    characters: int
    gaps: list[float]
    first: bool  # TTFT is new
    visible: bool  # time to first visible output is new


class Meter:
    """One answer, read as it arrives.

    Call `head` once, `read` for each read of the upstream in order, `waited` for each time the
    client held things up, `end` at the end of the body; then `totals`, `decode_rate` and the rest.

    A read that is like those before costs no call: whoever finds that it `recognises` one, or that
    it is what the meter `expects`, may instead of `read` put its arrival into `arrivals` and the
    characters of its output into `lengths`. They are looked at when somebody asks.

    Args:
        call: what was asked for.
        event: the interface's reader (`formats.event.Interface.event`).
        t0: arrival of the request's last byte, seconds.
        stall_seconds: chunk gaps over this are stalls.
    """

    __slots__ = (
        "_call",
        "_characters_told",
        "_counts",
        "_done",
        "_finished",
        "_last_index",
        "_named",
        "_reader",
        "_tokens_told",
        "_visible_told",
        "arrivals",
        "chunks",
        "error",
        "finish",
        "first_told",
        "gaps",
        "headers_at",
        "learned",
        "lengths",
        "model",
        "output",
        "recognise",
        "stream",
        "t0",
    )

    def __init__(
        self,
        call: Call,
        event: EventReader,
        learned: Learned,
        t0: float,
        stall_seconds: float,
    ) -> None:
        self._call = call
        self._reader = Reader(event, stateless=call.reader is None)
        self.recognise = self._reader.recognise
        self.t0 = t0
        self.gaps = Gaps(stall_seconds)
        self.learned = learned
        self.model = call.model
        self._named = False  # the answer named its model
        self.stream = call.stream  # until the answer's head says what it is
        self.headers_at: float | None = None

        self.arrivals: list[float] = []
        self.lengths: list[int] = []
        self.chunks = 0
        self.output = Output(call.choices)
        self._counts = Counts()

        self.finish: str | None = None
        self.error = False
        self._done = False
        self._finished: set[int] = set()  # choices, by their index
        self._last_index = 0

        self._tokens_told = self._characters_told = 0
        self.first_told = self._visible_told = False  # by `progress`

    # --- what comes in --------------------------------------------------------------------------

    def head(self, status: int, content_type: str, encoding: str, at: float) -> None:
        """The response head has arrived at `at`. Only a 2xx is read."""
        self.headers_at = at
        self.stream = is_stream(content_type)
        if 200 <= status < 300 and self._call.api != "other":
            self._reader.open(content_type, encoding)

    def engine_says(self, figures: dict[str, float]) -> None:
        """The answer's head holds figures of the engine's own (`formats.event.ENGINE_KEYS`)."""
        self._counts.take_engine(figures, final=False)

    def give_up(self, reason: str) -> None:
        """Read no more of the answer, for a reason of `tokometer_skipped_total`."""
        self._reader.give_up(reason)

    def read(self, data: bytes, at: float) -> None:
        """One read of the upstream, arrived at `at`."""
        self.catch_up()
        self.chunks += 1
        self._take(self._reader.read(data), at)

    @property
    def expects(self) -> Template | None:
        """What the next read is probably like; None where that cannot be told."""
        return self._reader.expects

    def recognised(self, characters: int, at: float) -> None:
        """Instead of `read`, for a read in which `recognise` found so many characters."""
        self.arrivals.append(at)
        self.lengths.append(characters)

    def catch_up(self) -> None:
        """Look at what is in `arrivals` and `lengths`."""
        arrivals = self.arrivals
        if not arrivals:
            return
        self.chunks += len(arrivals)
        self.output.plain(len(arrivals), sum(self.lengths), self._reader.hidden)
        self.gaps.several(arrivals)
        arrivals.clear()
        self.lengths.clear()

    def waited(self, seconds: float) -> None:
        """The client did not take bytes for so long."""
        self.catch_up()
        self.gaps.wait += seconds

    def end(self, at: float) -> None:
        """The body ended cleanly; its last byte had arrived at `at`."""
        self.catch_up()
        self._take(self._reader.end(), at)

    def _take(self, events: list[Event], at: float) -> None:
        output = False
        for event in events:
            output |= self._event(event, at)
        if output and self.stream:
            self.gaps.read(at)

    def _event(self, event: Event, at: float) -> bool:
        """Take one event; True if it carried output."""
        if event.index > self._last_index:
            self._last_index = event.index
        if (
            event.usage is not None
            or event.finished
            or event.finish
            or event.end
            or event.error
            or event.engine
            or (event.model and not self._named)
        ):
            self._report(event)
        return self.output.take(event, at, self.stream)

    def _report(self, event: Event) -> None:
        """What an event says beside its text."""
        if event.model and not self._named:
            self.model = event.model
            self._named = True
        final = event.usage_only or event.finished > 0
        if event.usage is not None:
            self._counts.take(event.usage, final)
        if event.engine:
            self._counts.take_engine(event.engine, final)
        self.finish = event.finish or self.finish
        if event.finished:  # of several in one payload the last one's index is known
            self._finished.update(range(event.index - event.finished + 1, event.index + 1))
        self._done |= event.end
        self.error |= event.error

    # --- what comes out -------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """The answer's logical end was seen: a terminal event, or every choice's finish reason."""
        if self._done or self._reader.done:
            return True
        wanted = max(self._last_index + 1, self._call.choices) if self.stream else 1
        return len(self._finished) >= wanted

    @property
    def readable(self) -> bool:
        """Whether an end could be seen at all."""
        return self._reader.readable

    @property
    def broken(self) -> bool:
        """Whether the stream's framing was damaged, so that no end could be seen behind that."""
        return self._reader.broken

    @property
    def unfinished(self) -> bool:
        """Whether what came ends inside of a JSON text; to be asked before `end`."""
        return self._reader.unfinished

    def tokens_so_far(self) -> int:
        """Output tokens up to now, as well as can be told while the stream runs."""
        output = self.output
        if output.so_far is not None:
            return output.so_far
        exact = output.exact
        return self.learned.output(output.characters, output.events) if exact is None else exact

    def _estimate(self) -> int | None:
        """Tokens by the text's length; None where some of the text was not read."""
        output = self.output
        if not output.events or self._reader.unread:
            return None
        if not self.stream:
            return self.learned.whole(output.characters)
        return self.learned.output(output.characters, output.events)

    def progress(self) -> Progress | None:
        """What moved since the last call; None if nothing did."""
        self.catch_up()
        output = self.output
        tokens = max(0, self.tokens_so_far() - self._tokens_told) if output.events else 0
        characters = output.characters - self._characters_told
        first = output.first_at is not None and not self.first_told
        visible = output.visible_at is not None and not self._visible_told
        if not (tokens or characters or first or visible or self.gaps.new):
            return None
        self._tokens_told += tokens
        self._characters_told = output.characters
        self.first_told |= first
        self._visible_told |= visible
        return Progress(tokens, characters, self.gaps.take(), first, visible)

    @property
    def headers(self) -> float | None:
        """Seconds from `t0` to the response head."""
        return self._since_t0(self.headers_at)

    @property
    def ttft(self) -> float | None:
        """Seconds from `t0` to the first output event; streams only."""
        return self._since_t0(self.output.first_at)

    @property
    def ttfv(self) -> float | None:
        """Seconds from `t0` to the first output event that is not reasoning; streams only."""
        return self._since_t0(self.output.visible_at)

    def _since_t0(self, at: float | None) -> float | None:
        # Who answers before the request has all arrived was not timed from its end.
        return None if at is None or at < self.t0 else at - self.t0

    def totals(self) -> Totals:
        """The exchange's tokens from the best source there is."""
        self.catch_up()
        output = self.output
        exact = output.so_far if output.exact is None else output.exact
        estimate = self._estimate()
        totals = self._counts.totals(self._call.choices, output.events > 0, exact, estimate)
        if output.hidden and not totals.reasoning:  # SGLang's and vLLM's placeholder
            return totals._replace(reasoning=None)
        return totals

    @property
    def engine(self) -> dict[str, float]:
        """The engine's own figures (`formats.event.ENGINE_KEYS`)."""
        return self._counts.engine

    def learn(self, totals: Totals) -> None:
        """Teach the model's ratios from an exchange that completed and was counted."""
        if self._reader.unread or self._reader.failed:  # some of the text is missing
            return
        output = self.output
        shown = not totals.reasoning or output.hidden  # else reasoning was counted but not sent
        if totals.source in ("usage", "engine") and totals.output and shown and self.stream:
            self.learned.learn_output(totals.output, output.characters, output.events)
        # Of several prompts llama.cpp counts one.
        if totals.prompt and self._call.prompt_characters and self._call.choices == 1:
            self.learned.learn_prompt(totals.prompt, self._call.prompt_characters)

    def decode_rate(self, tokens: int | None) -> tuple[float | None, str | None]:
        """(N - n1) / (t_last - t_first) in tokens per second, or why there is none.

        Args:
            tokens: N, the exchange's output tokens.
        """
        if self._reader.unread or self._reader.failed:
            return None, self._reader.unread or "malformed"
        if self.output.first_at is None:
            return None, "no_output"
        if tokens is None:
            return None, "no_count"
        phase = self.gaps.last_at - self.output.first_at
        first = self.first_event_tokens(tokens)
        if tokens <= 1:
            return None, "one_token"
        if self.gaps.reads < 2 or phase <= 0:
            return None, "one_read"
        if tokens <= first:
            return None, "one_token"
        if self.gaps.waited > CLIENT_LIMITED * phase:
            return None, "client_limited"
        return (tokens - first) / phase, None

    def decode_characters(self) -> float | None:
        """Characters of output after the first output, per second of the decode phase."""
        output, last_at = self.output, self.gaps.last_at
        if output.first_at is None or last_at <= output.first_at:
            return None
        return (output.characters - output.first_characters) / (last_at - output.first_at) or None

    def tokens_per_chunk(self, tokens: int | None) -> float | None:
        """Output tokens per read with output; None if unknown.

        Args:
            tokens: N, the exchange's output tokens. Reasoning that was not sent is left out.
        """
        if not tokens or not self.gaps.reads or self._reader.unread or self._reader.failed:
            return None
        return (tokens - self._unseen(tokens)) / self.gaps.reads or None

    def _unseen(self, tokens: int) -> int:
        """Reasoning that was counted but not sent."""
        return 0 if self.output.hidden else min(tokens, self.totals().reasoning or 0)

    def first_event_tokens(self, tokens: int) -> float:
        """n1: exact where the stream tells, else N shared out by characters; at least 1.

        Reasoning that was counted but not sent came before the first output, like the tokens that
        a parser swallows.
        """
        output = self.output
        if output.first_tokens is not None:
            return max(1, output.first_tokens)
        unseen = self._unseen(tokens)
        shared = (tokens - unseen) * output.first_characters / max(1, output.characters)
        return max(1.0, unseen + shared)
