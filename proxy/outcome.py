"""How an exchange ended."""

from enum import StrEnum

from proxy.meter import Meter


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETED = "completed"
    REJECTED = "rejected"  # upstream 4xx, 5xx
    ERROR_MIDSTREAM = "error_midstream"  # an error event inside a 200
    TRUNCATED = "truncated"  # the upstream died, or the stream lacks its terminator
    CLIENT_CLOSED = "client_closed"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ABORTED = "aborted"  # the proxy cut it


def left(meter: Meter) -> Outcome:
    """The outcome when the client closed the connection."""
    if meter.error:
        return Outcome.ERROR_MIDSTREAM
    return Outcome.COMPLETED if meter.ended else Outcome.CLIENT_CLOSED


def verdict(status: int, meter: Meter) -> Outcome:
    """The outcome of an answer whose body came to its end."""
    if status >= 400:
        return Outcome.REJECTED
    if meter.error:
        return Outcome.ERROR_MIDSTREAM
    if meter.stream and meter.readable and not meter.ended:
        return Outcome.TRUNCATED
    return Outcome.COMPLETED
