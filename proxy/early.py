"""A connected socket that the event loop does not have yet: what is asked goes out at once."""

import asyncio
import socket


class Early:
    """One such socket, until `attach` has given it to the loop."""

    __slots__ = ("_attaching", "_sock", "_unsent")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._unsent = b""
        self._attaching = False

    def send(self, data: bytes) -> OSError | None:
        """Send what goes at once; the rest waits. What is wrong, if anything is.

        The loop will find that, too, but perhaps by another name.
        """
        sent, wrong = 0, None
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                pass
            except OSError as problem:
                wrong = problem.with_traceback(None)  # it would know the caller: a cycle
        self._unsent += data[sent:]
        return wrong

    async def attach(self, protocol: asyncio.Protocol) -> bytes:
        """Give the socket to the loop; what is still to be sent. Raises: OSError.

        As long as this takes, the transport must not close: uvloop ties the socket to it only then,
        and a socket that outlives its transport closes whatever has got its number meanwhile.
        """
        loop = asyncio.get_running_loop()
        unix = self._sock.family == socket.AF_UNIX
        make = loop.create_unix_connection if unix else loop.create_connection
        self._attaching = True
        try:
            await make(lambda: protocol, sock=self._sock)
        except BaseException:
            self._sock.detach()  # what it was is closed
            raise
        return self._unsent

    def close(self) -> bool:
        """Close the socket, unless it is on its way to the loop; whether it is closed."""
        if not self._attaching:
            self._sock.close()
        return not self._attaching
