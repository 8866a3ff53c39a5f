"""What an answer generated: how much, of what kind, and when it began. Pure, like the meter."""

from proxy.formats.event import Event


class Output:
    """What one answer generated, event by event.

    Args:
        choices: answers that were asked for.

    Attributes:
        events: those with output.
        characters: of all output.
        hidden: characters of reasoning among them.
        first_at: arrival of the first output of a stream, seconds.
        visible_at: that of the first that is not reasoning.
        first_characters: of the first event.
        first_tokens: those up to the first event and in it, where the stream tells.
    """

    __slots__ = (
        "_choices",
        "_exact",
        "_exact_events",
        "_so_far",
        "_whole",
        "characters",
        "events",
        "first_at",
        "first_characters",
        "first_tokens",
        "hidden",
        "visible_at",
    )

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self.events = 0
        self.characters = 0
        self.hidden = 0
        self.first_at: float | None = None
        self.visible_at: float | None = None
        self.first_characters = 0
        self.first_tokens: int | None = None
        self._whole: dict[int, int] = {}  # characters so far by choice, where events repeat them
        self._exact = 0
        self._exact_events = 0
        self._so_far: int | None = None

    def plain(self, events: int, characters: int, hidden: bool) -> None:
        """So many events behind the first that are text and nothing else."""
        self.events += events
        self.characters += characters
        if hidden:
            self.hidden += characters

    def take(self, event: Event, at: float, streamed: bool) -> bool:
        """Take one event, arrived at `at`; True if it carried output that is new."""
        if event.tokens:
            self._exact += event.tokens
        if event.so_far:
            self._so_far = event.so_far
        new = event.visible + event.hidden
        if not new:
            return False
        if event.whole and streamed:
            before = self._whole.get(event.index, 0)
            new, self._whole[event.index] = max(0, new - before), max(new, before)
            if event.end and self.events:
                return False  # repeats what came in deltas
            if not new:
                return False
        self.events += 1
        self.characters += new
        self.hidden += min(new, event.hidden)
        if event.tokens:
            self._exact_events += 1
        if streamed:
            if self.first_at is None:
                self._first(event, new, at)
            if event.visible and self.visible_at is None:
                self.visible_at = at
        return True

    def _first(self, event: Event, new: int, at: float) -> None:
        self.first_at = at
        self.first_characters = new
        # Tokens that a parser had swallowed before belong to the first event that shows them.
        if self._choices == 1:
            self.first_tokens = event.so_far or (self._exact if event.tokens else None)
        else:
            self.first_tokens = event.tokens or event.so_far

    @property
    def exact(self) -> int | None:
        """Tokens by ids or logprobs, if every event had them."""
        return self._exact if self.events and self._exact_events == self.events else None

    @property
    def so_far(self) -> int | None:
        """The engine's own count up to now; of several choices it is that of one."""
        return self._so_far if self._choices == 1 else None
