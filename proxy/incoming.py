"""An answer as httptools reads it off a connection: its head, pieces of its body, its end."""

import re
from collections.abc import Callable

import httptools

from proxy.answer import Inform
from proxy.headers import Pair

_VISIBLE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class Incoming:
    """One answer after the other, each after `expect`.

    Args:
        begun: called when the head of an answer is complete.

    Attributes:
        status, reason, headers: of the answer; pairs keep their order, case and repetitions.
        started: its head is complete.
        framed: it says itself where its body ends.
        pieces: bytes of its body that nobody has taken yet.
        chunk_over: the last thing that was read is the end of a chunk.
        ended: it is complete.
        switched: another protocol begins behind it.
        keep: the connection may carry another one.
        headless: it is to a HEAD: without a body, whatever its headers say.
        fault: what is wrong with it, though it can be parsed; empty for nothing.
    """

    __slots__ = (
        "_begun",
        "_inform",
        "_interim",
        "_parser",
        "_surplus",
        "_switches",
        "chunk_over",
        "ended",
        "fault",
        "framed",
        "headers",
        "headless",
        "keep",
        "pieces",
        "reason",
        "started",
        "status",
        "switched",
    )

    def __init__(self, begun: Callable[[], None]) -> None:
        self._begun = begun
        self._parser = httptools.HttpResponseParser(self)
        # An interim answer may say `Connection: close`. What comes behind a final one is surplus.
        self._parser.set_dangerous_leniencies(lenient_keep_alive=True)
        self.expect()

    def expect(
        self, headless: bool = False, switches: bytes = b"", inform: Inform | None = None
    ) -> None:
        """Forget the last answer.

        Args:
            switches: the other protocols that were offered.
            inform: told of interim answers.
        """
        self.headless = headless
        self._switches = switches
        self._inform = inform
        self.status = 0
        self.reason = b""
        self.headers: list[Pair] = []
        self.started = self.framed = self.ended = self.switched = self.keep = False
        self.chunk_over = False
        self.pieces: list[bytes] = []
        self.fault = ""
        self._interim = False
        self._surplus = False  # a second answer, which nobody asked for

    def close(self) -> None:
        """Nothing more is fed. The parser knows this object: no cycle for the garbage collector."""
        del self._parser, self._begun

    @property
    def ends_with_the_connection(self) -> bool:
        """The end of the connection is the end of its body."""
        return self.started and not self.framed

    def feed(self, data: bytes) -> None:
        """Take a read. Raises: httptools.HttpParserError, httptools.HttpParserUpgrade."""
        self._parser.feed_data(data)

    # --- called by httptools --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.started:
            self.keep, self._surplus = False, True

    def on_status(self, reason: bytes) -> None:
        if not self._surplus:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.started:  # trailers end here, like all hop-by-hop fields
            return
        self.headers.append((name, value))
        if len(name) == 14 and name.lower() == b"content-length":
            self.framed = True
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            coding = value.strip(b" \t").lower()
            self.framed = coding == b"chunked"
            if coding not in (b"chunked", b"identity"):  # nobody would undo it
                self.fault = "a transfer coding other than chunked"

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        self.status = self._parser.get_status_code()
        self.switched = self.status == 101
        if self.status < 100:
            self.fault = "no such status"
        if self.switched and not self._may_switch():
            self.fault = "a switch to another protocol that was not offered"
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self.fault = "another version of HTTP"
        if self.fault:
            raise ValueError  # which stops the parser
        if not _VISIBLE.fullmatch(self.reason):
            self.reason = b""
        if 100 <= self.status < 200 and not self.switched:
            self._interim = True
            return
        self.started = True
        # Behind an answer of HTTP/1.0 with a transfer coding nobody knows (RFC 9112, 6.1).
        self.keep = self._parser.should_keep_alive() and version == "1.1"
        if self.status in (204, 304):
            self.framed = True
        self._begun()
        if self.headless:
            self.framed = self.ended = True

    def _may_switch(self) -> bool:
        """Whether it is to a protocol that was offered, and said as RFC 9110, 7.8, has it."""
        fields = [(name.lower(), value.lower()) for name, value in self.headers]
        options = [value for name, value in fields if name == b"connection"]
        if b"upgrade" not in {one.strip() for one in b",".join(options).split(b",")}:
            return False
        chosen = [value for name, value in fields if name == b"upgrade"]
        known = {one.strip() for one in self._switches.lower().split(b",")}
        return len(chosen) == 1 and chosen[0].strip() in known - {b""}

    def on_chunk_header(self) -> None:
        self.chunk_over = False

    def on_chunk_complete(self) -> None:
        self.chunk_over = not self._surplus

    def on_body(self, data: bytes) -> None:
        if self.headless:
            self.keep = False
        elif not self._surplus:
            self.pieces.append(data)

    def on_message_complete(self) -> None:
        if self._interim:
            if self._inform is not None:
                self._inform(self.status, self.reason, self.headers.copy())
            self._interim = self.framed = False
            self.headers.clear()
            self.reason = b""
        elif not self._surplus and not self.switched:
            self.ended = True
