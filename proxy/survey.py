"""What an upstream is: its engine, that engine's version, and the models it lists."""

import httpx

from proxy import facts
from proxy.caller import Caller, TooLong
from proxy.facts import Facts, Question, Reply


class Unwell(Exception):
    """The upstream answers that it cannot serve now."""

    def __str__(self) -> str:
        return "it says that it cannot serve now"


# What can come of asking an upstream that is not well.
FAILURES = (httpx.TransportError, OSError, TooLong, Unwell)  # TimeoutError is an OSError

_NOT_IMPLEMENTED = 501  # it does not know the question: no illness, as little as 404 and 401
_UNAVAILABLE = (502, 503, 504)


class Survey:
    """Asks one upstream, and remembers by which question it told what it is.

    Args:
        seconds: time limit on each answer.
    """

    def __init__(self, caller: Caller, seconds: float) -> None:
        self._caller = caller
        self._seconds = seconds
        self._telling: Question | None = None
        self._mute = False  # it was asked everything and told nothing
        self._engine = ""

    async def health(self) -> None:
        """Returns if the upstream is well.

        Raises: Unwell, httpx.TransportError, TimeoutError, TooLong.
        """
        reply = await self._ask(facts.health(self._engine))
        if reply.status >= 500 and reply.status != _NOT_IMPLEMENTED:
            raise Unwell

    async def facts(self, *, afresh: bool = True) -> Facts:
        """What it is; where not `afresh`, who told nothing is asked for models alone.

        Raises as `health`.
        """
        listing = await self._ask(facts.LIST)
        engine, models = facts.engine_of(listing), facts.models(listing.told)
        told = None
        if engine or afresh or not self._mute:
            told = await self._told(engine)
            self._mute = told is None
        told = told or Facts(engine)
        if told.engine == "vllm" and models and not engine:
            # Others tell a bare version too, and in its list vLLM says that it is vLLM.
            told = told._replace(engine="")
        models = models or told.models
        if told.engine == "ollama" and not models:
            models = facts.models((await self._ask("/api/tags")).told)
        self._engine = told.engine
        return told._replace(models=models)

    async def _told(self, engine: str) -> Facts | None:
        """What a server that is taken for `engine` says of itself."""
        asked = facts.questions(engine)
        for question in sorted(asked, key=lambda one: one != self._telling):
            if question == self._telling:
                reply = await self._ask(question.path)
            else:  # what it does not know, it may answer in any way
                reply = await self._caller.get(question.path, self._seconds)
            if (told := question.read(reply.told)) is not None:
                self._telling = question
                return told
        return None

    async def _ask(self, path: str) -> Reply:
        reply = await self._caller.get(path, self._seconds)
        if reply.status in _UNAVAILABLE:
            raise Unwell
        return reply
