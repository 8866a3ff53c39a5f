"""What a request to the simulated engine asks for, whatever interface it came by."""

from dataclasses import dataclass
from typing import Any, Literal

from proxy.engine import words


class Refusal(Exception):
    """A request that is answered with an error: HTTP status, and the fields of OpenAI's error."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the model may call; `schema` is the JSON schema of its arguments."""

    name: str
    schema: Any = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for generated text."""

    model: str | None  # None: the first one served
    prompts: tuple[str, ...]
    stream: bool = False
    limit: int | None = None  # tokens of each answer, reasoning included
    n: int = 1  # answers to each prompt
    usage: bool = False  # token counts are wanted in the stream
    echo: bool = False  # the answer begins with the prompt
    reasons: bool = True  # the interface has a place for reasoning
    functions: tuple[Function, ...] = ()
    tool_choice: Literal["auto", "required", "none"] = "auto"

    @property
    def prompt_tokens(self) -> int:
        return sum(map(words.count_tokens, self.prompts))

    @property
    def context(self) -> int:
        """Tokens that one answer starts with: those of the longest prompt."""
        return max(map(words.count_tokens, self.prompts))


Body = dict[str, Any]


def invalid(param: str, message: str) -> Refusal:
    return Refusal(400, f"{param}: {message}", param)


def whole_number(body: Body, param: str, least: int = 1) -> int | None:
    """The number in `body`, None where it is absent or null. Raises Refusal."""
    value = body.get(param)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise invalid(param, f"must be a whole number, {least} or more")
    return value


def several(body: Body) -> int:
    """`n`: how many answers; 1 where it does not say. Raises Refusal."""
    n = whole_number(body, "n") or 1
    if n > 128:
        raise invalid("n", "must be 128 or less")
    return n


def flag(body: Body, param: str, default: bool = False) -> bool:
    """The boolean in `body`. Raises Refusal."""
    value = body.get(param)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(param, "must be true or false")
    return value


def model(body: Body) -> str | None:
    """The model that `body` names. Raises Refusal."""
    value = body.get("model")
    if value is not None and not isinstance(value, str):
        raise invalid("model", "must be a string")
    return value


def messages(body: Body) -> str:
    """The text of all messages. Raises Refusal."""
    value = body.get("messages")
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise invalid("messages", "must be a list of messages")
    if not value:
        raise invalid("messages", "must not be empty")
    return words.spoken(value)


def functions(tools: Any, inside: str | None, schema: str) -> tuple[Function, ...]:
    """The functions that a list of tools declares; other kinds of tool are passed over.

    `inside`: the key under which a tool describes its function, None where it does so itself.
    `schema`: the key of the arguments' JSON schema.
    """
    found = []
    for tool in tools if isinstance(tools, list) else ():
        described = tool.get(inside) if inside and isinstance(tool, dict) else tool
        if isinstance(described, dict) and isinstance(described.get("name"), str):
            found.append(Function(described["name"], described.get(schema)))
    return tuple(found)


def demand(declared: tuple[Function, ...], name: str | None) -> tuple[Function, ...]:
    """The functions one of which has to be called: that of this name, else any. Raises Refusal."""
    wanted = tuple(each for each in declared if name in (None, each.name))
    if not wanted:
        raise invalid("tool_choice", f"there is no such function in tools: {name or 'any'}")
    return wanted
