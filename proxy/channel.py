"""Worker to keeper: what is said (how it gets there: `sender`, `receiver`).

A worker says what happened in records; the keeper, in a process of its own, makes metrics, the
live table and the request log of them. It is one way, batched, bounded, and nothing on the path
of a chunk waits for it. The wire is a Unix stream socket: batches of JSON arrays, each behind its
length as four bytes.

All times (`at`, `*_at`) are seconds of the host's monotonic clock, which processes share;
`*_seconds` are durations. A key that is absent is unknown.
"""

from typing import Literal, TypedDict

LENGTH_BYTES = 4  # big-endian, before each batch
MAX_BATCH_BYTES = 1 << 20


class Begin(TypedDict, total=False):
    """A request is complete and goes to the upstream (`at` is its t0)."""

    kind: Literal["begin"]
    id: int  # of the exchange, unique within the worker
    upstream: str
    api: str
    stream: bool  # whether a stream was asked for
    model: str  # as asked for, raw
    at: float
    trace: str  # for exemplars: the trace id, else the request id
    user: str  # as a label value; here and in End only where users are asked for
    task: str  # a hash of what the calls of a task share; only where that is a header
    # For the log line of an exchange whose worker died; as in End.
    time: float
    request_id: str
    trace_id: str
    parent_id: str  # the span that the client is in, with trace_id
    sampled: bool  # whether the client's trace is recorded, with trace_id


class Output(TypedDict, total=False):
    """Progress of an exchange since the last record of this kind: sent for those that moved."""

    kind: Literal["output"]
    id: int
    model: str  # the one that a 2xx answer names, else the one asked for; raw
    ttft_seconds: float  # in the first one after the first output event of a stream
    ttfv_seconds: float  # likewise for the first visible output
    first_at: float  # with ttft_seconds
    last_at: float  # of the last output event; 0 if there was none
    tokens: int  # output tokens, exact or estimated, since the last record; may be 0
    characters: int  # of output, since the last record
    gaps: list[float]  # chunk gaps, seconds
    held: bool  # the client takes no bytes (any more or again); absent where that did not change
    code: int  # the status that the client saw; in the first one


class End(TypedDict, total=False):
    """An exchange has ended; this is also its line in the request log (see `journal`)."""

    kind: Literal["end"]
    id: int
    time: float  # wall clock of t0, seconds since the epoch
    at: float  # when it was in flight no more
    request_id: str
    trace_id: str
    parent_id: str
    sampled: bool
    user: str
    task: str
    upstream: str
    model: str  # raw; as in Output
    api: str
    stream: bool  # by the answer's Content-Type; what was asked for where there was no answer
    outcome: str  # outcome.Outcome's value
    code: int  # the status that the client saw
    answered: bool  # the upstream answered with a 2xx, so that `model` may become a label
    headers_seconds: float  # response head
    ttft_seconds: float
    ttfv_seconds: float
    first_at: float  # t_first
    last_at: float  # t_last
    decode_tokens_per_second: float
    prefill_tokens_per_second: float
    decode_characters_per_second: float  # with decode_tokens_per_second
    tokens_per_chunk: float  # output tokens per read with output
    duration_seconds: float
    client_wait_seconds: float
    prompt_tokens: int
    cached_prompt_tokens: int
    output_tokens: int  # N
    reasoning_tokens: int
    output_characters: int
    token_source: str  # usage, engine, stream, estimate, none
    skipped: str  # why there is no decode rate (streams only)
    chunks: int
    max_gap_seconds: float
    stalls: int
    stalled_seconds: float
    context: int  # prompt tokens: the upstream's count, else an estimate
    engine: dict[str, float]  # formats.event.ENGINE_KEYS
    finish_reason: str
    error: str  # why it did not complete, where the proxy knows; not the upstream's words
    received_bytes: int  # from the client and to it, behind a 101
    sent_bytes: int


class Refused(TypedDict, total=False):
    """The proxy answered a request itself, so that no upstream had a part in it.

    The values are those of the request log, as in End.
    """

    kind: Literal["refused"]
    time: float
    request_id: str
    trace_id: str
    outcome: str
    code: int
    error: str  # errors.Failure's code


class Connected(TypedDict, total=False):
    """A new connection to an upstream, or the failure to make one (no `seconds`)."""

    kind: Literal["connected"]
    upstream: str
    seconds: float


class Identity(TypedDict):
    """An upstream said what it is: its `Server` header, sent when it changes."""

    kind: Literal["identity"]
    upstream: str
    server: str


class Probed(TypedDict, total=False):
    """A probe of an upstream; all but `up` only where it said what it is, empty is unknown."""

    kind: Literal["probed"]
    upstream: str
    up: bool
    engine: str
    version: str
    models: list[str]  # its own list


class Sung(TypedDict, total=False):
    """A canary has come back."""

    kind: Literal["sung"]
    upstream: str
    model: str  # raw; empty if none is known
    success: bool
    ttft_seconds: float
    decode_tokens_per_second: float


class Delays(TypedDict, total=False):
    """The proxy's own delays since the last such record, seconds."""

    kind: Literal["delays"]
    lag: list[float]  # event loop
    overhead: dict[str, list[float]]  # by upstream: chunk read to chunk handed on


class State(TypedDict):
    """What a worker is doing; its first record on a connection."""

    kind: Literal["state"]
    worker: int  # its slot
    pid: int
    state: Literal["ready", "draining"]


class Dropped(TypedDict):
    """Records that the worker had to let go since the keeper took none.

    What is in flight now begins again in the records behind this one (see `Sender`).
    """

    kind: Literal["dropped"]
    records: int
    in_flight: list[int]  # ids


Record = (
    Begin | Output | End | Refused | Connected | Identity | Probed | Sung | Delays | State | Dropped
)
