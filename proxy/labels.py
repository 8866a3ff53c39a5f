"""What may become a label value: known words, and so many names of models that were answered to."""

from collections.abc import Callable

from proxy import errors
from proxy.meter import Outcome

SCOPE = ("upstream", "model", "api", "stream")
SOURCES = ("usage", "engine", "stream", "estimate", "none")
SKIPPED = (
    "no_output",
    "one_token",
    "one_read",
    "no_count",
    "client_limited",
    "not_completed",
    "malformed",
    "encoding",
    "too_large",
)
REFUSALS = tuple(failure.code for failure in errors.REFUSALS)
PHASES = ("waiting", "decoding")
# Statuses that are there with 0 from the start; "" is an exchange that got none.
USUAL_CODES = {
    Outcome.COMPLETED: ("200",),
    Outcome.REJECTED: ("400", "404", "429", "500", "503"),
    Outcome.ERROR_MIDSTREAM: ("200",),
    Outcome.TRUNCATED: ("200",),
    Outcome.CLIENT_CLOSED: ("", "200"),
    Outcome.UNREACHABLE: ("502",),
    Outcome.TIMEOUT: ("200", "504"),
    Outcome.ABORTED: ("", "200", "503"),
}

UNKNOWN = "unknown"
OTHER = "other"
MAX_LABEL_CHARACTERS = 128
# Names that are remembered, aliases included, for each model that can be a label.
_NAMES_PER_MODEL = 20


def clean(text: str) -> str:
    """`text` as a label value: printable, without blanks around it, not too long."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "?" for character in text)
    return text[:MAX_LABEL_CHARACTERS].strip()


class Models:
    """Names of models as clients and upstreams use them, and the labels they may have.

    A name is known once a 2xx of that upstream answered to it; the name that the answer gave is
    the model's own from then on, the one that was asked for an alias of it.

    Args:
        max_models: how many label values there can be, over all upstreams.
        on_overflow: called for each name that becomes known and finds no room.
    """

    def __init__(self, max_models: int, on_overflow: Callable[[], None]) -> None:
        self._max_models = max_models
        self._on_overflow = on_overflow
        self._labels: set[str] = set()
        # Upstream and name to the model's own name; the one that was learned longest ago is first.
        self._known: dict[tuple[str, str], str] = {}

    def name(self, upstream: str, name: str) -> str:
        """The model's own name, as far as it is known; `name` is clean."""
        return self._known.get((upstream, name), name)

    def label(self, upstream: str, name: str) -> str:
        """The label of what was asked for under this name; `name` is clean."""
        own = self._known.get((upstream, name))
        if own is None:
            return UNKNOWN
        return own if own in self._labels else OTHER

    def learn(self, upstream: str, asked: str, answered: str) -> str:
        """A 2xx answer to `asked` named `answered` (both clean, either can be empty): its label."""
        if not answered:
            return UNKNOWN
        if (upstream, answered) not in self._known and not self._admit(answered):
            self._on_overflow()
        self._remember(upstream, answered, answered)
        if asked:
            self._remember(upstream, asked, answered)
        return answered if answered in self._labels else OTHER

    def _admit(self, name: str) -> bool:
        if name not in self._labels and len(self._labels) < self._max_models:
            self._labels.add(name)
        return name in self._labels

    def _remember(self, upstream: str, name: str, own: str) -> None:
        self._known.pop((upstream, name), None)
        self._known[upstream, name] = own
        if len(self._known) > self._max_models * _NAMES_PER_MODEL:
            del self._known[next(iter(self._known))]
