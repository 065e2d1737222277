"""otlp_receiver.py - a collector for OpenTelemetry metrics that remembers all it was sent."""
import http.server
import struct
import sys
import threading
import time
from typing import NamedTuple

VARINT, FIXED64, BYTES = 0, 1, 2


def fields(data):
    """The fields of a protobuf message: {number: [int or bytes]}."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        wire = tag & 7
        if wire == VARINT:
            value = varint()
        else:
            size = {FIXED64: lambda: 8, BYTES: varint}[wire]()
            value = data[at:at + size]
            assert len(value) == size, "a field is longer than its message"
            at += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def one(message, number, default=None):
    values = message.get(number, [default])
    assert len(values) == 1, (number, values)
    return values[0]


def unpack(code, data):
    return [value for value, in struct.iter_unpack("<" + code, data)]


def attributes(rows):
    found = {}
    for row in map(fields, rows):
        key, value = one(row, 1).decode(), fields(one(row, 2))
        assert len(value) == 1 and key not in found, (key, value)
        found[key] = one(value, 1).decode() if 1 in value else one(value, 3)
    return found


class Point(NamedTuple):
    attributes: dict
    begin_ns: int  # 0 = none
    now_ns: int
    value: object  # int, float or Histogram


class Histogram(NamedTuple):
    count: int
    sum: float
    min: float
    max: float
    buckets: list
    bounds: list


class Metric(NamedTuple):
    kind: str
    unit: str
    temporality: int
    monotonic: bool
    points: list

    def of(self, **wanted):
        """The points with these attributes."""
        return [point for point in self.points if wanted.items() <= point.attributes.items()]


class Export(NamedTuple):
    at: float
    path: str
    headers: object
    resource: dict
    scope: str
    metrics: dict  # by name


def clock(message, number):
    return unpack("Q", one(message, number, bytes(8)))[0]


def number_point(data):
    message = fields(data)
    value = unpack("d", one(message, 4))[0] if 4 in message else unpack("q", one(message, 6))[0]
    return Point(attributes(message.get(7, [])), clock(message, 2), clock(message, 3), value)


def histogram_point(data):
    message = fields(data)
    doubles = [unpack("d", one(message, number))[0] for number in (5, 11, 12)]
    value = Histogram(unpack("Q", one(message, 4))[0], *doubles, unpack("Q", one(message, 6)),
                      unpack("d", one(message, 7)))
    return Point(attributes(message.get(9, [])), clock(message, 2), clock(message, 3), value)


KINDS = {5: ("gauge", number_point), 7: ("sum", number_point), 9: ("histogram", histogram_point)}


def metric(data):
    message = fields(data)
    number, = set(message) & set(KINDS)
    kind, read = KINDS[number]
    body = fields(one(message, number))
    return one(message, 1).decode(), Metric(
        kind, one(message, 3, b"").decode(), one(body, 2, 0), bool(one(body, 3, 0)),
        [read(point) for point in body.get(1, [])])


def decode(path, headers, body):
    all_of_it = fields(one(fields(body), 1))
    scope = fields(one(all_of_it, 2))
    rows = [metric(row) for row in scope[2]]
    assert len(dict(rows)) == len(rows), "a name twice"
    return Export(time.monotonic(), path, headers,
                  attributes(fields(one(all_of_it, 1)).get(1, [])),
                  one(fields(one(scope, 1)), 1).decode(), dict(rows))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may leave
            super().handle_error(request, client_address)


class Receiver:
    """with Receiver() as receiver: listening; receiver.exports grows. `answer` is what to send, all
    of it."""

    def __init__(self, address=("127.0.0.1", 0)):
        receiver = self
        self.exports, self.answer = [], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.exports.append(decode(self.path, self.headers, body))
                self.wfile.write(receiver.answer)

            def log_message(self, *_):
                pass

        self.server = Server(address, Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
