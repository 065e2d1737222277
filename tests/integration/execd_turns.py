"""execd_turns.py - whether execd serves others during long work, by the order of its answers."""
import contextlib
import http.client
import os
import select
import signal
import socket

from execd_process import SECONDS_MAX


def request(method, target, body=b"", *headers):
    lines = [f"{method} {target} HTTP/1.1", "Host: sandbox", *headers,
             f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


PINGS = [request("GET", "/ping")] * 8


@contextlib.contextmanager
def stopped(process):
    """Stops the process (SIGSTOP): it finds all input of the block at once when it continues."""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def dial(execd):
    if hasattr(execd, "port"):
        return socket.create_connection(("127.0.0.1", execd.port), SECONDS_MAX)
    return execd.connect()


def reply_of(client):
    """The response after its head was read; its body is still unread."""
    reply = http.client.HTTPResponse(client)
    reply.begin()
    return reply


def overtake(execd, long, others):
    """Replies to a request that takes long, and to others that arrive after it, on connections that
    execd had not accepted by then: it must call epoll_wait twice to see them. Asserts that the long
    one is answered last. The result does not depend on scheduling: execd finds all requests at
    once, which must be small enough for socket buffers, and the kernel keeps the order of
    answers."""
    with contextlib.ExitStack() as stack:
        order = stack.enter_context(select.epoll())
        clients = [stack.enter_context(dial(execd))]
        clients[0].sendall(request("GET", "/ping"))
        assert reply_of(clients[0]).read() == b"", "it is accepted now"
        with stopped(execd.process):
            clients[0].sendall(long)
            for other in others:
                clients.append(stack.enter_context(dial(execd)))
                clients[-1].sendall(other)
            for client in clients:
                order.register(client, select.EPOLLIN)
        for client in clients:
            assert select.select([client], [], [], SECONDS_MAX)[0], "no answer"
        answered = [fd for fd, _ in order.poll(0, len(clients))]
        places = [answered.index(client.fileno()) for client in clients]
        replies = [reply_of(client) for client in clients]
    assert places[0] == len(others), f"answered in place {places[0]} of {len(places)}"
    return replies


def serves_others_during(execd, *long):
    """The reply to a long request; asserts that pings were answered during it."""
    reply, *pings = overtake(execd, request(*long), PINGS)
    assert all(ping.status == 200 for ping in pings)
    return reply
