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

_SIZE_LINES = {length: line for line, length in SIZES.items()}
_NO_CHUNK = b"\n"  # no chunk begins like this
# Reads of so many lengths are kept in mind; a stream has some twenty.
_MAX_LENGTHS = 64


class Shapes(dict[int, tuple[bytes, slice]]):
    """By its length, how a read begins that is one chunk of what `template` expects, and the place
    of its text, quotes included.
    """

    def __init__(self, template: Template, end: int) -> None:
        super().__init__()
        self._prefix = template.prefix
        self._end = end

    def __missing__(self, length: int) -> tuple[bytes, slice]:
        line = _SIZE_LINES.get(length)
        if line is None:
            return _NO_CHUNK, slice(0)
        if len(self) >= _MAX_LENGTHS:
            self.clear()
        beginning = line + self._prefix
        shape = self[length] = beginning, slice(len(beginning) - 1, self._end)
        return shape


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
    shapes = Shapes(template, 1 - len(suffix))
    arrivals = meter.arrivals
    arrived, output = arrivals.append, meter.lengths.append

    def take(data: bytes) -> None:
        at = clock()
        beginning, text = shapes[len(data)]
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

    return Shortcut(take, lambda: arrivals[-1] if arrivals else meter.gaps.last_at)
