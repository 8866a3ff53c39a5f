"""What users get: requests, tokens, speed by user, for at most so many of them."""

from proxy.channel import End, Output
from proxy.labels import OTHER, UNKNOWN
from proxy.live import Exchange, Follower
from proxy.metrics import Metrics

# Names that found no room are remembered, so that each of them is counted once, about.
_FOLDED_PER_USER = 20


class Users(Follower):
    """Counts exchanges by user.

    A user is `unknown` until a 2xx has answered: names that clients invent take no room.

    Args:
        max_users: values of the label `user`; later ones are `other`. Only a restart makes room.
    """

    def __init__(self, metrics: Metrics, max_users: int) -> None:
        self._metrics = metrics
        self._max_users = max_users
        self._overflow = metrics.label_overflow.of("user")
        self._labels: set[str] = set()
        self._folded: dict[str, None] = {}  # the one that was met longest ago is first

    def output(self, exchange: Exchange, record: Output) -> None:
        label = self._learn(exchange.begun.get("user"))
        if tokens := record.get("tokens"):
            self._metrics.user_output_tokens.of(label).add(tokens)
        if (ttft := record.get("ttft_seconds")) is not None:
            self._metrics.user_ttft.of(label).observe(ttft)

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        metrics, user = self._metrics, record.get("user")
        label = self._learn(user) if record.get("answered") else self._label(user)
        metrics.user_requests.of(label).add(1)
        if record.get("answered") and (tokens := record.get("output_tokens")) is not None:
            counted = exchange.tokens if exchange else 0
            metrics.user_output_tokens.of(label).settle(counted, tokens)
        ttft = record.get("ttft_seconds")
        if ttft is not None and (exchange is None or exchange.ttft_seconds is None):
            metrics.user_ttft.of(label).observe(ttft)
        rate = record.get("decode_tokens_per_second")
        if rate and record["outcome"] == "completed":
            metrics.user_decode.of(label).observe(rate)

    def _label(self, user: str | None) -> str:
        """Of whom nothing is known to have been answered."""
        if user in self._labels:
            return user or UNKNOWN
        return OTHER if user in self._folded else UNKNOWN

    def _learn(self, user: str | None) -> str:
        """A 2xx answered this user."""
        if not user:
            return UNKNOWN
        if user not in self._labels and len(self._labels) < self._max_users:
            self._labels.add(user)
            self._metrics.know_user(user)
        if user in self._labels:
            return user
        if user not in self._folded:
            self._overflow.add(1)
        self._fold(user)
        return OTHER

    def _fold(self, user: str) -> None:
        self._folded.pop(user, None)
        self._folded[user] = None
        if len(self._folded) > self._max_users * _FOLDED_PER_USER:
            del self._folded[next(iter(self._folded))]
