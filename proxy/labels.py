"""What may become a label value: known words, and so many names of models that were answered to."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

from proxy import errors
from proxy.outcome import Outcome

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
# Statuses that have a meaning: the registered ones, and those of nginx (444, 494 to 499), of AWS's
# load balancers (460, 463, 464, 561), of Cloudflare (520 to 530), of which Anthropic uses one, and
# of proxies that time out (598, 599).
_STATUSES = frozenset(
    (*HTTPStatus, 444, *range(494, 500), 460, 463, 464, 561, *range(520, 531), 598, 599)
)

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


def status(code: int | None) -> str:
    """A status as a label value; one without a meaning is folded into its class, such as `4xx`.

    Upstreams, and clients of some, can choose any of 900.
    """
    if code is None:
        return ""
    if code in _STATUSES:
        return str(code)
    return f"{code // 100}xx" if 100 <= code < 600 else OTHER


class Models:
    """Names of models as clients and upstreams use them, and the labels they may have.

    A name is known once a 2xx of that upstream answered to it; the name that the answer gave is
    the model's own from then on, the one that was asked for an alias of it.

    Many servers answer with whatever name they were asked for. Where an upstream lists its models,
    such an echo of a name that is not among them is nobody's name and no label. A name that
    an upstream gave of its own accord, and it is one, listed or not.

    Args:
        max_models: how many label values there can be, over all upstreams.
        on_overflow: called for each name that becomes known and is no label.
    """

    def __init__(self, max_models: int, on_overflow: Callable[[], None]) -> None:
        self._max_models = max_models
        self._on_overflow = on_overflow
        self._labels: set[str] = set()
        self._shown: set[tuple[str, str]] = set()  # upstream and a name that is a label there
        self._listed: dict[str, frozenset[str]] = {}  # by upstream, all forms of each name
        self._sole: dict[str, str] = {}  # by upstream
        # Upstream and name to the model's own name; the one that was learned longest ago is first.
        self._known: dict[tuple[str, str], str] = {}

    def lists(self, upstream: str, names: Iterable[str], indifferent: bool = False) -> None:
        """The upstream lists these models (raw), and no others; none where that is not known.

        `indifferent`: its kind takes any name for the one model that it has.
        """
        cleaned = [clean(name) for name in names]
        if any("*" in name for name in cleaned):  # a router's patterns
            cleaned = []
        self._listed[upstream] = frozenset(form for name in cleaned for form in _forms(name))
        self._sole[upstream] = cleaned[0] if indifferent and len(cleaned) == 1 else ""

    def name(self, upstream: str, name: str) -> str:
        """The model's own name, as far as it is known; `name` is clean."""
        return self._known.get((upstream, name), name)

    def label(self, upstream: str, name: str) -> str:
        """The label of what was asked for under this name; `name` is clean."""
        own = self._known.get((upstream, name))
        if own is None:
            return UNKNOWN
        return own if (upstream, own) in self._shown else OTHER

    def learn(self, upstream: str, asked: str, answered: str) -> str:
        """A 2xx answer to `asked` named `answered` (both clean, either can be empty): its label."""
        if not answered:
            return UNKNOWN
        if self._echoes(upstream, asked, answered):
            answered = self._sole.get(upstream) or answered
        if not self._admit(upstream, asked, answered) and (upstream, answered) not in self._known:
            self._on_overflow()
        self._remember(upstream, answered, answered)
        if asked:
            self._remember(upstream, asked, answered)
        return self.label(upstream, answered)

    def _admit(self, upstream: str, asked: str, answered: str) -> bool:
        """Whether the name is a label, from now on if not before."""
        if (upstream, answered) in self._shown:
            return True
        if answered not in self._labels:
            if len(self._labels) >= self._max_models or self._echoes(upstream, asked, answered):
                return False
            self._labels.add(answered)
        self._shown.add((upstream, answered))
        return True

    def _echoes(self, upstream: str, asked: str, answered: str) -> bool:
        listed = self._listed.get(upstream, frozenset())
        name = _plain(answered)
        return bool(listed) and _plain(asked) == name and name not in listed

    def _remember(self, upstream: str, name: str, own: str) -> None:
        self._known.pop((upstream, name), None)
        self._known[upstream, name] = own
        if len(self._known) > self._max_models * _NAMES_PER_MODEL:
            del self._known[next(iter(self._known))]


def _plain(name: str) -> str:
    """Ollama knows capitals from small letters as little as a name from its latest tag."""
    return name.casefold().removesuffix(":latest")


def _forms(name: str) -> tuple[str, str]:
    """What a listed model may be asked for by: its name, or that without its organisation."""
    plain = _plain(name)
    return plain, plain.rpartition("/")[2]
