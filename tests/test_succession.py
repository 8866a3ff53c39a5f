import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from proxy.sockets import listen_shared
from proxy.succession import hand_over, settled

CONNECTIONS = 60

linux = pytest.mark.skipif(sys.platform != "linux", reason="a program on a port is Linux's")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def listening(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    found = listen_shared("127.0.0.1", port, count, beside=True)
    for one in found:
        stack.enter_context(one)
    return found


def port_of(listeners: list[socket.socket]) -> int:
    return int(listeners[0].getsockname()[1])


def arrivals(stack: ExitStack, *groups: list[socket.socket]) -> list[int]:
    """How many of some connections come to each of these groups of sockets."""
    for _ in range(CONNECTIONS):
        stack.enter_context(socket.create_connection(("127.0.0.1", port_of(groups[-1]))))
    counts = []
    for group in groups:
        counts.append(0)
        for one in group:
            one.setblocking(False)
            while True:
                try:
                    one.accept()[0].close()
                except BlockingIOError:
                    break
                counts[-1] += 1
    return counts


@linux
@pytest.mark.parametrize(("before", "behind"), [(1, 1), (3, 1), (1, 3), (2, 2)])
def test_new_connections_go_to_the_successor(stack: ExitStack, before: int, behind: int) -> None:
    old = listening(stack, 0, before)
    new = listening(stack, port_of(old), behind)
    hand_over(old)
    assert arrivals(stack, old, new) == [0, CONNECTIONS]


@linux
def test_each_successor_has_one_of_its_own(stack: ExitStack) -> None:
    generations = [listening(stack, 0, 2)]
    for count in (3, 1, 2):
        old = generations[-1]
        new = listening(stack, port_of(old), count)
        hand_over(old)
        assert arrivals(stack, old, new) == [0, CONNECTIONS]
        for one in old:
            one.close()
        assert arrivals(stack, new) == [CONNECTIONS]
        generations.append(new)


@linux
def test_who_is_alone_shares_among_its_own_sockets(stack: ExitStack) -> None:
    old = listening(stack, 0, 1)
    new = listening(stack, port_of(old), 2)
    assert not settled(new)
    hand_over(old)
    for one in old:
        one.close()
    assert sorted(arrivals(stack, [new[0]], [new[1]])) == [0, CONNECTIONS]
    assert settled(new)
    assert min(arrivals(stack, [new[0]], [new[1]])) > 0


def test_who_never_shared_is_settled(stack: ExitStack) -> None:
    (alone,) = listen_shared("127.0.0.1", 0, 1)
    stack.enter_context(alone)
    assert settled([alone])
    with socket.socket(socket.AF_UNIX) as unix:
        assert settled([unix])


@linux
def test_without_a_successor_nothing_changes(stack: ExitStack) -> None:
    old = listening(stack, 0, 2)
    hand_over(old)
    assert arrivals(stack, old) == [CONNECTIONS]


def test_a_socket_that_shares_nothing_goes_on(stack: ExitStack) -> None:
    (alone,) = listen_shared("127.0.0.1", 0, 1)
    stack.enter_context(alone)
    hand_over([alone])
    assert arrivals(stack, [alone]) == [CONNECTIONS]


def test_unix_sockets_need_none_of_it() -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        hand_over([unix])
