"""pty_terminal.py - a terminal session's WebSocket, and a terminal emulator (pyte) at its end."""
import json
import socket
import time

import pyte
import websockets.sync.client
from websockets.exceptions import ConnectionClosed

from execd_process import SECONDS_MAX

STDIN, STDOUT, STDERR, REPLAY = b"\0", b"\1", b"\2", b"\3"


class Closed(Exception):
    """The other side ended the connection; code and reason as it said."""

    def __init__(self, code, reason):
        super().__init__(f"closed: {code} {reason}")
        self.code, self.reason = code, reason


class View:
    """A connection to a session: frames, and the bytes of its output by number."""

    def __init__(self, sock, path, headers=None):
        self.sock = sock
        self.ws = websockets.sync.client.connect(
            f"ws://sandbox{path}", sock=sock, unix=sock.family == socket.AF_UNIX, compression=None,
            max_size=None, ping_interval=None, additional_headers=headers,
            open_timeout=SECONDS_MAX, close_timeout=20)
        self.begin = None  # number of the first byte that came
        self.output = bytearray()
        self.errors = bytearray()  # of these, what came as stderr
        self.frames = []  # text frames, decoded
        self.replayed = 0

    # --- to it ---

    def send(self, data):
        """Types; text or bytes."""
        self.ws.send(STDIN + (data.encode() if isinstance(data, str) else data))

    def say(self, kind, **fields):
        self.ws.send(json.dumps({"type": kind, **fields}))

    def resize(self, cols, rows):
        self.say("resize", cols=cols, rows=rows)

    # --- from it ---

    def take(self, timeout=SECONDS_MAX):
        """One message, or TimeoutError, or Closed."""
        try:
            message = self.ws.recv(timeout)
        except ConnectionClosed as end:
            close = end.rcvd
            raise Closed(close.code if close else None, close.reason if close else "") from None
        if isinstance(message, str):
            assert message.endswith("}\n") and message.count("\n") == 1, repr(message)
            self.frames.append(json.loads(message))
            return
        channel, data = message[:1], message[1:]
        if channel == REPLAY:
            assert self.begin is None and not self.frames, "a replay comes first"
            self.begin, data = int.from_bytes(data[:8], "big"), data[8:]
            self.replayed = len(data)
        else:
            assert channel in (STDOUT, STDERR) and 0 < len(data) <= 32768, message[:20]
            assert self.frames, "output before `connected`"
        if channel == STDERR:
            self.errors += data
        self.output += data
        self.on_output(data)

    def on_output(self, data):
        pass

    def wait(self, condition, what):
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            left = end - time.monotonic()
            assert left > 0, f"waited in vain: {what}; {bytes(self.output[-400:])!r} {self.frames}"
            try:
                self.take(min(left, 1))
            except TimeoutError:
                pass

    def wait_text(self, text):
        self.wait(lambda: text.encode() in self.output, repr(text))

    def wait_frame(self, kind):
        self.wait(lambda: any(frame["type"] == kind for frame in self.frames), kind)
        return next(frame for frame in self.frames if frame["type"] == kind)

    def wait_end(self):
        """(exit code, close code, reason), once all was said."""
        try:
            while True:
                self.take()
        except Closed as end:
            assert self.frames[-1]["type"] == "exit", self.frames
            return self.frames[-1]["exit_code"], end.code, end.reason

    def cut(self):
        """Drops the connection without a close frame, as a network failure does."""
        self.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.ws.close()

    def __enter__(self):
        self.wait_frame("connected")
        return self

    def __exit__(self, *_):
        self.close()


class Screen(pyte.Screen):
    """With what vim asks for and pyte does not know: CSI > 4 ; 2 m."""

    def select_graphic_rendition(self, *attributes, private=False):
        if not private:
            super().select_graphic_rendition(*attributes)


class Terminal(View):
    """The same with a screen."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.screen = Screen(80, 24)
        self.parser = pyte.ByteStream(self.screen)

    def on_output(self, data):
        self.parser.feed(bytes(data))

    def resize(self, cols, rows):
        self.screen.resize(rows, cols)
        super().resize(cols, rows)

    def shows(self, text):
        return any(text in line for line in self.screen.display)

    def wait_screen(self, text):
        self.wait(lambda: self.shows(text), f"{text!r} on the screen")

    def wait_screen_without(self, text):
        self.wait(lambda: not self.shows(text), f"no {text!r} on the screen")


class Sessions:
    """Terminal sessions of an execd: `client` asks it (execd_client.Client), or what looks so."""

    def __init__(self, client, headers=None, prefix=""):
        self.client, self.headers, self.prefix = client, headers, prefix

    def new(self, **body):
        reply = self.client.ask("POST", f"{self.prefix}/pty", body)
        assert reply.status == 201 and list(reply.json()) == ["session_id"], reply
        return reply.json()["session_id"]

    def get(self, session):
        reply = self.client.ask("GET", f"{self.prefix}/pty/{session}")
        assert reply.status == 200, reply
        return reply.json()

    def delete(self, session):
        reply = self.client.ask("DELETE", f"{self.prefix}/pty/{session}")
        assert reply.status == 200 and reply.body == b"", reply

    def path(self, session, **query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return f"{self.prefix}/pty/{session}/ws" + ("?" + text if text else "")

    def view(self, session, kind=View, **query):
        return kind(self.client.connect(), self.path(session, **query), headers=self.headers)

    def terminal(self, **body):
        return self.view(self.new(**body), Terminal)
