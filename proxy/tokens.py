"""Which token count to believe, and what to say where there is none."""

import math
from collections import OrderedDict
from typing import NamedTuple

from proxy.formats.event import Usage


class Totals(NamedTuple):
    """Tokens of one exchange: cached are part of the prompt, reasoning part of the output."""

    source: str  # usage, engine, stream, estimate, none
    output: int | None = None
    prompt: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class Counts:
    """What an upstream said about tokens: of each field the last value wins, nothing is summed.

    But for one case: with several choices llama.cpp reports once per choice, where everybody else
    reports once for all. As many final reports as choices are added up.
    """

    __slots__ = ("_engine_per_choice", "_last", "_per_choice", "engine")

    def __init__(self) -> None:
        self._last = Usage()
        self._per_choice: list[int] = []
        self._engine_per_choice: list[int] = []
        self.engine: dict[str, float] = {}

    def take(self, usage: Usage, final: bool) -> None:
        """Take one report; `final` when its event ended a choice or did nothing but report."""
        last = self._last
        for field in ("prompt", "cached", "cache_written", "output", "reasoning", "total"):
            value = getattr(usage, field)
            if value or (value is not None and getattr(last, field) is None):
                setattr(last, field, value)
        last.cached_beside |= usage.cached_beside
        if final and usage.output:
            self._per_choice.append(usage.output)

    def take_engine(self, figures: dict[str, float], final: bool) -> None:
        """Take figures of the engine's own (`formats.event.ENGINE_KEYS`); `final` as in `take`."""
        self.engine |= figures
        if final and "output_tokens" in figures:
            self._engine_per_choice.append(int(figures["output_tokens"]))

    def output(self, choices: int) -> int | None:
        """Output tokens by the upstream's usage, reasoning included; None if it gave none."""
        if choices > 1 and len(self._per_choice) == choices:
            return sum(self._per_choice)
        return self._last.generated

    def engine_output(self, choices: int) -> int | None:
        """Output tokens by the engine's own figures; None if it did not count all choices."""
        if choices > 1:
            found = self._engine_per_choice
            return sum(found) if len(found) == choices else None
        output = self.engine.get("output_tokens")
        return None if output is None else int(output)

    def prompt(self) -> tuple[int | None, int | None]:
        """Prompt tokens, cached ones included, and the cached ones among them."""
        last, engine = self._last, self.engine
        prompt, cached = last.prompt, last.cached
        if cached is None and "cached_prompt_tokens" in engine:
            cached = int(engine["cached_prompt_tokens"])
        # More cached tokens than tokens: they were counted beside, whatever the interface says.
        if prompt is not None and (last.cached_beside or (cached or 0) > prompt):
            prompt += (cached or 0) + (last.cache_written or 0)
        if not prompt and "prompt_tokens" in engine:
            prompt = int(engine["prompt_tokens"] + engine.get("cached_prompt_tokens", 0))
        return prompt or None, cached

    def totals(self, choices: int, seen: bool, exact: int | None, estimate: int | None) -> Totals:
        """The best of all sources.

        Args:
            choices: answers asked for.
            seen: output was seen, so that a count of 0 is a placeholder.
            exact: output tokens by token ids or logprobs of the stream.
            estimate: output tokens by the text's length.
        """
        prompt, cached = self.prompt()
        for source, output in (
            ("usage", self.output(choices)),
            ("engine", self.engine_output(choices)),
            ("stream", exact),
            ("estimate", estimate),
        ):
            if output is not None and (output or not seen):
                return Totals(source, output, prompt, cached, self._last.reasoning)
        return Totals("none", None, prompt, cached, self._last.reasoning)


# How fast old exchanges are forgotten, and when the events' steadiness counts as shown.
_DECAY = 0.98
_ENOUGH = 8


class _Ratio:
    """Tokens per unit over many exchanges, and how much it varies from one to the next."""

    __slots__ = ("_mean", "_seen", "_spread", "_tokens", "_units")

    def __init__(self) -> None:
        self._tokens = self._units = 0.0
        self._seen = 0
        self._mean = self._spread = 0.0

    def learn(self, tokens: int, units: int) -> None:
        self._tokens = self._tokens * _DECAY + tokens
        self._units = self._units * _DECAY + units
        # Welford's mean and sum of squares, of the logarithm, with the same forgetting.
        self._seen += 1
        weight = max(1 / self._seen, 1 - _DECAY)
        off = math.log(tokens / units) - self._mean
        self._mean += weight * off
        self._spread = (1 - weight) * (self._spread + weight * off * off)

    @property
    def value(self) -> float | None:
        return self._tokens / self._units if self._units else None

    def steadier_than(self, other: "_Ratio") -> bool:
        return self._seen >= _ENOUGH and self._spread < other._spread / 4


class Learned:
    """What a model's counted exchanges taught about its tokenizer, for those without a count."""

    __slots__ = ("_per_character", "_per_event", "_per_prompt_character")

    def __init__(self) -> None:
        self._per_character = _Ratio()
        self._per_event = _Ratio()
        self._per_prompt_character = _Ratio()

    def learn_output(self, tokens: int, characters: int, events: int) -> None:
        """A count by the upstream for that many characters in that many output events."""
        if tokens > 0 and characters > 0 and events > 0:
            self._per_character.learn(tokens, characters)
            self._per_event.learn(tokens, events)

    def learn_prompt(self, tokens: int, characters: int) -> None:
        """A count by the upstream for a prompt of that many characters."""
        if tokens > 0 and characters > 0:
            self._per_prompt_character.learn(tokens, characters)

    def output(self, characters: int, events: int) -> int:
        """Estimated output tokens of a stream: characters times tokens per character.

        Until something is learned one per output event, and again where that has proved the
        steadier measure: an engine that sends each token as it comes.
        """
        per_event = self._per_event.value
        by_characters = self.whole(characters)
        if by_characters is None or per_event is None:
            return events
        if self._per_event.steadier_than(self._per_character):
            return max(1, round(events * per_event)) if events else 0
        return by_characters

    def whole(self, characters: int) -> int | None:
        """Estimated output tokens of a whole answer; None until something is learned."""
        value = self._per_character.value
        if value is None:
            return None
        return max(1, round(characters * value)) if characters else 0

    def prompt(self, characters: int) -> int:
        """Estimated prompt tokens; a quarter of the characters until something is learned."""
        value = self._per_prompt_character.value
        return max(1, round(characters * (0.25 if value is None else value)))


class Learning:
    """`Learned` by upstream and model, the least recently used forgotten beyond `most`."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._models: OrderedDict[tuple[str, str | None], Learned] = OrderedDict()

    def of(self, upstream: str, model: str | None) -> Learned:
        """What is known of a model (as asked for or as answered)."""
        key = (upstream, model)
        learned = self._models.get(key)
        if learned is None:
            learned = self._models[key] = Learned()
            if len(self._models) > self._most:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(key)
        return learned
