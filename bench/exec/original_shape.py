#!/usr/bin/env python3
"""original_shape.py LINES LINE_BYTES: answers every request with a stream in the original's shape.

Events have the original's keys in its order, and no others. Each is written by a call of its own,
as a chunk of its own, which is how the original flushes them. Nothing else is modelled: the lines
are ready, so that its pace is the reader's. Prints its port.
"""
import socket
import sys
import time

HEAD = (b"HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nConnection: keep-alive\r\n"
        b"Content-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n")


def chunk(event):
    return b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event)


def events(lines, line_bytes):
    now = int(time.time() * 1000)
    yield b'{"type":"init","text":"9f1c2d3e4b5a46789abcdef012345678","timestamp":%d}' % now
    yield b'{"type":"ping","text":"pong","timestamp":%d}' % now
    for _ in range(lines):
        yield b'{"type":"stdout","text":"%s","timestamp":%d}' % (b"x" * (line_bytes - 1), now)
    yield b'{"type":"execution_complete","execution_time":4,"timestamp":%d}' % now


def serve(listener, chunks):
    while True:
        client, _ = listener.accept()
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = b""
            while b"\r\n\r\n" not in request:
                if not (data := client.recv(65536)):
                    break
                request += data
            for data in [HEAD, *chunks, b"0\r\n\r\n"] if request else []:
                client.sendall(data)
            while client.recv(65536):
                pass


def main():
    chunks = [chunk(event) for event in events(int(sys.argv[1]), int(sys.argv[2]))]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        serve(listener, chunks)


if __name__ == "__main__":
    main()
