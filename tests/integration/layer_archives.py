"""layer_archives.py - tar archives made by hand, byte by byte, so that they may be wrong."""
import gzip
import io
import struct
import zlib

BLOCK = 512


def octal(value, size):
    return f"{value:0{size - 1}o}".encode() + b"\0"


def padded(data):
    return data + b"\0" * (-len(data) % BLOCK)


def head(name, kind=b"0", size=0, mode=0o644, uid=0, gid=0, mtime=1, target=b"", prefix=b"",
         magic=b"ustar\x0000", devices=(0, 0), raw=None):
    """A head block; `raw` maps offsets to bytes that replace what is there."""
    name, target = (x.encode() if isinstance(x, str) else x for x in (name, target))
    block = bytearray(BLOCK)

    def put(at, data):
        block[at:at + len(data)] = data

    put(0, name[:100])
    put(100, octal(mode, 8))
    put(108, octal(uid, 8) if uid < 1 << 21 else b"\x80" + uid.to_bytes(7, "big"))
    put(116, octal(gid, 8) if gid < 1 << 21 else b"\x80" + gid.to_bytes(7, "big"))
    put(124, octal(size, 12) if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big"))
    put(136, octal(mtime, 12))
    put(156, kind)
    put(157, target[:100])
    put(257, magic)
    put(329, octal(devices[0], 8))
    put(337, octal(devices[1], 8))
    put(345, prefix)
    for at, data in (raw or {}).items():
        put(at, data)
    put(148, b"        ")
    put(148, f"{sum(block):06o}\0 ".encode())
    return bytes(block)


def file(name, data=b"x", **more):
    return head(name, b"0", len(data), **more) + padded(data)


def directory(name, **more):
    return head(name, b"5", **{"mode": 0o755, **more})


def symlink(name, target, **more):
    return head(name, b"2", target=target, mode=0o777, **more)


def hard_link(name, target, **more):
    return head(name, b"1", target=target, **more)


def record(key, value):
    """A record of an extended header: its length counts itself."""
    value = value.encode() if isinstance(value, str) else value
    body = b" " + key.encode() + b"=" + value + b"\n"
    size = len(body) + 1
    while len(str(size)) + len(body) != size:
        size = len(str(size)) + len(body)
    return str(size).encode() + body


def pax(*pairs, data=None):
    """An extended header for the next entry."""
    data = b"".join(record(*pair) for pair in pairs) if data is None else data
    return head("PaxHeaders/x", b"x", len(data)) + padded(data)


def long_name(name, kind=b"L"):
    data = name.encode() + b"\0"
    return head("././@LongLink", kind, len(data)) + padded(data)


def archive(*entries, end=True):
    return b"".join(entries) + (b"\0" * 2 * BLOCK if end else b"")


def sparse_old(name, pieces, size, data, more=None):
    """GNU's old format: the map is in the head, and in a block behind it."""
    raw = {483: octal(size, 12)}
    for i, (offset, length) in enumerate(pieces[:4]):
        raw[386 + 24 * i] = octal(offset, 12) + octal(length, 12)
    extra = b""
    if pieces[4:]:
        raw[482] = b"\1"
        extra = b"".join(octal(o, 12) + octal(n, 12) for o, n in pieces[4:25]).ljust(BLOCK, b"\0")
    raw.update(more or {})
    return head(name, b"S", len(data), magic=b"ustar  \0", raw=raw) + extra + padded(data)


def sparse_listed(name, pieces, size, data):
    """PAX 1.0: the map begins the content."""
    text = f"{len(pieces)}\n" + "".join(f"{o}\n{n}\n" for o, n in pieces)
    content = padded(text.encode()) + data
    return pax(("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", name),
               ("GNU.sparse.realsize", str(size))) + file("GNUSparseFile.0/x", content)


def capability(version=2, size=None):
    magic = {2: 0x02000001, 3: 0x03000001}.get(version, version)
    data = struct.pack("<IIIII", magic, 1 << 13, 0, 0, 0) + (b"\0" * 4 if version == 3 else b"")
    return data[:size] if size else data


def gzip_zeros(mebibytes):
    """Zeros, compressed a thousand times."""
    out, piece = io.BytesIO(), bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head_block = head("zeros", size=mebibytes << 20)
    out.write(packer.compress(head_block))
    for _ in range(mebibytes):
        out.write(packer.compress(piece))
    out.write(packer.compress(bytes(2 * BLOCK)) + packer.flush())
    return out.getvalue()


def gz(data):
    return gzip.compress(data, 6, mtime=0)
