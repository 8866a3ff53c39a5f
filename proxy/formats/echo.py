"""Takes a prompt that an answer repeats first out of what counts as output."""

from collections.abc import Sequence

from proxy.formats.event import JSON, Event, Reader, count, mappings


class Unechoed:
    """Reads an answer each of whose choices begins with its prompt.

    Args:
        event: the interface's reader.
        prompts: characters of each prompt.
        n: choices of each prompt; they are numbered prompt by prompt.
    """

    def __init__(self, event: Reader, prompts: Sequence[int], n: int) -> None:
        self._event = event
        self._prompts = prompts
        self._n = n
        self._left: dict[int, int] = {}  # what is still to be repeated of the prompt, by choice

    def __call__(self, payload: dict[str, JSON], name: str) -> Event | None:
        """One payload, its share of the prompt taken off."""
        event = self._event(payload, name)
        if event is not None and event.visible:
            for choice in mappings(payload.get("choices")):
                event.visible -= self._repeated(count(choice.get("index")) or 0, event.visible)
        return event

    def _repeated(self, index: int, visible: int) -> int:
        left = self._left.get(index)
        if left is None:
            prompt = index // self._n
            left = self._prompts[prompt] if prompt < len(self._prompts) else 0
        repeated = min(left, visible)
        self._left[index] = left - repeated
        return repeated
