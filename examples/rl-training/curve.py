"""curve.py - the returns of episodes as a PNG, by numpy and zlib: a dot for each, a line for their
mean over some episodes, and a grid with its numbers."""
import struct
import zlib

import numpy as np

WIDTH, HEIGHT, MARGIN = 640, 360, 40
WHITE, GREY, BLUE, BLACK, PALE = 0, 1, 2, 3, 4
PALETTE = bytes((255, 255, 255, 176, 190, 205, 21, 101, 192, 40, 40, 40, 232, 232, 232))
# Three columns and five rows each, a bit for a dot.
DIGITS = {"0": 0o75557, "1": 0o26227, "2": 0o71747, "3": 0o71717, "4": 0o55711, "5": 0o74717,
          "6": 0o74757, "7": 0o71111, "8": 0o75757, "9": 0o75717}
DOT = 2  # pixels of a dot of a digit


def write_number(picture, number, right, top):
    for place, digit in enumerate(reversed(str(number))):
        left = right - (place + 1) * 4 * DOT
        for bit in range(15):
            if DIGITS[digit] >> (14 - bit) & 1:
                y, x = top + bit // 3 * DOT, left + bit % 3 * DOT
                picture[y:y + DOT, x:x + DOT] = BLACK


def png(picture):
    """A picture of indices into PALETTE."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            chunk(b"PLTE", PALETTE) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def running_mean(returns, episodes):
    """Of each episode and those before it, `episodes` at most."""
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    ends = np.arange(1, len(returns) + 1)
    begins = np.maximum(0, ends - episodes)
    return (sums[ends] - sums[begins]) / (ends - begins)


def draw(returns, highest=500, episodes=20):
    """The bytes of a PNG."""
    picture = np.full((HEIGHT, WIDTH), WHITE, dtype=np.uint8)
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN // 2
    across = np.linspace(MARGIN + 6, right - 2, max(2, len(returns)))[:len(returns)]

    def row_of(values):
        return np.round(bottom - np.asarray(values) / highest * (bottom - MARGIN // 2)).astype(int)

    for value in range(0, highest + 1, 100):
        row = int(row_of(value))
        picture[row, MARGIN:right] = PALE if value else BLACK
        write_number(picture, value, MARGIN - 4, row - 5)
    picture[MARGIN // 2:bottom, MARGIN] = BLACK
    for episode in np.linspace(0, len(returns) - 1, min(6, len(returns))).astype(int):
        write_number(picture, episode + 1, min(int(across[episode]) + 12, WIDTH - 4), bottom + 10)
    for x, y in zip(np.round(across).astype(int), row_of(returns)):
        picture[y - 1:y + 2, x - 1:x + 2] = GREY
    columns = np.arange(int(across[0]), int(across[-1]) + 1)
    line = row_of(np.interp(columns, across, running_mean(returns, episodes)))
    for x, y, before in zip(columns, line, np.concatenate([line[:1], line[:-1]])):
        picture[min(y, before) - 1:max(y, before) + 2, x] = BLUE
    return png(picture)
