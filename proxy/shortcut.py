"""The quick way of a read that is like those before: from the upstream's socket to the client's in
one call.

Nearly every read of a token stream is one HTTP chunk that holds one event, and that event is what
the stream's template expects. Two comparisons and a look at the JSON string between them tell so,
and with it all that there is to know of the read; then the very bytes that came go on.
"""

from collections.abc import Callable

from orjson import JSONDecodeError, loads

from proxy.answer import Shortcut
from proxy.client import Client
from proxy.connection import SIZES
from proxy.meter import Meter
from proxy.template import Template

# Of reads of so many lengths it is known how they begin. A stream has some twenty.
_MAX_LENGTHS = 64


def shortcut(
    template: Template,
    client: Client,
    meter: Meter,
    clock: Callable[[], float],
    moved: Callable[[float], None],
    received: Callable[[bytes, float], None],
) -> Shortcut | None:
    """The quick way while an answer is between events and `template` holds; None if there is none.

    Args:
        moved: told the arrival of a read after which the meter has something new to say.
        received: takes what must go the long way, and its arrival.
    """
    if (write := client.takes_framed) is None:
        return None
    suffix = template.suffix + b"\r\n"
    stop = 1 - len(suffix)  # the quotes of the text are part of it
    arrivals = meter.arrivals
    arrived, output = arrivals.append, meter.lengths.append
    beginnings: dict[int, tuple[bytes, slice]] = {}  # by the length of a read

    def take(data: bytes) -> None:
        at = clock()
        try:
            beginning, text = beginnings[len(data)]
        except KeyError:
            known = _beginning(template, data)
            if known is not None and len(beginnings) < _MAX_LENGTHS:
                beginnings[len(data)] = known, slice(len(known) - 1, stop)
            received(data, at)
            return
        if data.startswith(beginning) and data.endswith(suffix) and not client.gone:
            try:
                characters = len(loads(data[text]))
            except JSONDecodeError:
                characters = 0
            if characters:
                write(data)
                if not arrivals:
                    moved(at)
                arrived(at)
                output(characters)
                return
        received(data, at)

    return Shortcut(take, lambda: arrivals[-1] if arrivals else meter.last_at)


def _beginning(template: Template, data: bytes) -> bytes | None:
    """How a read of this one's length begins if it is one chunk that fits; None if this does not."""
    size = data[: data.find(b"\n", 1, len(data)) + 1]
    beginning = size + template.prefix
    return beginning if SIZES.get(size) == len(data) and data.startswith(beginning) else None
