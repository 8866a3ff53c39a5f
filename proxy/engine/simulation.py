"""The simulated engine itself: places, chances and due times, but no wire format."""

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import count

from proxy.engine.answer import Burst, Reply, compose
from proxy.engine.ask import Ask, Refusal
from proxy.engine.pace import Pace, Slots
from proxy.engine.settings import EngineSettings
from proxy.engine.wire import Times

Clock = Callable[[], float]  # seconds, monotonic
Sleep = Callable[[float], Awaitable[object]]  # seconds
Steps = Sequence[Sequence[Burst]]


class Fault(Enum):
    """How a request goes wrong."""

    BUSY = auto()  # 429
    INTERNAL = auto()  # 500
    ERROR = auto()  # an error event inside a 200
    CUT = auto()  # the connection ends in mid-answer


REFUSALS = {
    Fault.BUSY: (429, "too many requests (simulated)"),
    Fault.INTERNAL: (500, "the engine failed (simulated)"),
}


class Simulation:
    """What all requests share."""

    def __init__(self, settings: EngineSettings, clock: Clock, sleep: Sleep) -> None:
        self.settings = settings
        self.clock = clock
        self._sleep = sleep
        self._slots = Slots(settings.max_concurrency)
        self._numbers = count()

    def chance(self) -> random.Random:
        """The next request's own source of chance: one request's luck is not another's."""
        return random.Random(f"{self.settings.seed}/{next(self._numbers)}")

    def model(self, name: str | None) -> str:
        """The model of that name, or the first one. Raises Refusal."""
        models = self.settings.models
        if name is not None and name not in models:
            served = ", ".join(models)
            message = f"The model `{name}` does not exist. Served here: {served}."
            raise Refusal(404, message, "model", "model_not_found")
        return name or models[0]

    def fault(self, chance: random.Random, stream: bool) -> Fault | None:
        """What befalls a request. Raises Refusal where that is all the client gets."""
        if chance.random() >= self.settings.error_rate:
            return None
        fault: Fault = chance.choice(list(Fault) if stream else list(REFUSALS))
        if fault in REFUSALS:
            raise Refusal(*REFUSALS[fault])
        return fault

    def reply(self, asked: Ask, chance: random.Random) -> Reply:
        """What to say to a request. Raises Refusal for a model that is not served."""
        answers = tuple(
            compose(self.settings, asked, prompt, number)
            for prompt in asked.prompts
            for number in range(asked.n)
        )
        key = f"{chance.getrandbits(64):016x}"
        return Reply(asked, self.model(asked.model), key, datetime.now(UTC), answers)

    async def decode(
        self,
        steps: Steps,
        asked: Ask,
        chance: random.Random,
        times: Times,
        emit: Callable[[Burst], Awaitable[None]],
    ) -> None:
        """Waits for a free slot, then emits each burst when it is due."""
        stalls = chance.random() < self.settings.stall
        pause = chance.randrange(1, len(steps)) if stalls and len(steps) > 1 else None
        async with self._slots:
            times.started = self.clock()
            pace = Pace(self.settings, chance, times.started, asked.prompt_tokens, asked.context)
            times.first = pace.due
            for number, step in enumerate(steps):
                if number == pause:
                    pace.pause(self.settings.stall_seconds)
                longest = max(len(burst.pieces) for burst in step)
                times.last = pace.chunk(longest, self._slots.taken)
                await self._until(times.last)
                for burst in step:
                    await emit(burst)

    async def prefill(self, tokens: int, chance: random.Random) -> None:
        """Waits for a free slot, then for as long as that many tokens of prompt take."""
        async with self._slots:
            await self._until(Pace(self.settings, chance, self.clock(), tokens, tokens).due)

    async def _until(self, due: float) -> None:
        # Also where it is late: a stream that has to catch up must not keep the others waiting.
        await self._sleep(max(0.0, due - self.clock()))
