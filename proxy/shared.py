"""Bytes that a process shares with those that it forks: in memory, on no disk."""

import contextlib
import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator

_MARK = hashlib.sha256().digest_size
_LENGTH = 8


class Shared:
    """One writer, before and after it forks, and readers.

    Args:
        most: bytes that there is room for; what is not used takes no memory.
    """

    def __init__(self, most: int) -> None:
        self._memory = mmap.mmap(-1, _MARK + _LENGTH + most)

    def write(self, content: bytes) -> None:
        """Put this in the place of what there was. Raises ValueError if there is no room."""
        whole = len(content).to_bytes(_LENGTH) + content
        if _MARK + len(whole) > len(self._memory):
            raise ValueError("no room")
        self._memory[_MARK : _MARK + len(whole)] = whole
        self._memory[:_MARK] = hashlib.sha256(whole).digest()

    def read(self) -> bytes | None:
        """What was written last; None while that is being done, or before."""
        mark = self._memory[:_MARK]
        begin = _MARK + _LENGTH
        size = int.from_bytes(self._memory[_MARK:begin])
        content = self._memory[begin : begin + size]
        whole = size.to_bytes(_LENGTH) + content
        return content if hashlib.sha256(whole).digest() == mark else None


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """The path of a file that holds `content`, for libraries that take nothing else.

    It is in memory where the system can do that, and lets this process open it by a path: Linux
    does, but for programs that have more rights than their user. Elsewhere it is a temporary file
    that nobody else can read, and gone after the context. Raises OSError.
    """
    with contextlib.ExitStack() as stack:
        if (path := _in_memory(content, stack)) is None:
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(content)
            file.flush()
            path = file.name
        yield path


def _in_memory(content: bytes, stack: contextlib.ExitStack) -> str | None:
    if not hasattr(os, "memfd_create"):
        return None
    file = stack.enter_context(os.fdopen(os.memfd_create("tokometer"), "wb"))
    file.write(content)
    file.flush()
    path = f"/proc/self/fd/{file.fileno()}"
    return path if os.access(path, os.R_OK) else None
