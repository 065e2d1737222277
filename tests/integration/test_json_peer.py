#!/usr/bin/env python3
"""Compares our JSON reader and writer with Python's over a corpus and generated documents.

usage: test_json_peer.py JSON_ECHO [SEED]

Python's module is lenient where we are strict on purpose, so `expected()` adds what it lacks:
  - a document is UTF-8 without a byte order mark;
  - NaN and Infinity are no JSON;
  - an object repeats no key (unless the policy under test says which one wins);
  - a \\u escape of half a surrogate pair is refused (or replaced, under --replace);
  - a number beyond the range of a double is refused; an integer beyond 64 bits is a double;
  - arrays and objects nest at most 64 deep.
"""
import codecs
import json
import math
import pathlib
import random
import re
import struct
import subprocess
import sys

DEPTH_MAX = 64
DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "json"
GENERATED, MUTATED, DOUBLES = 1500, 4500, 20000

sys.setrecursionlimit(20000)
codecs.register_error("each-byte", lambda e: ("\ufffd" * (e.end - e.start), e.end))


def refuse(what):
    raise ValueError(what)


def read_int(text):
    value = int(text) if len(text) < 400 else refuse("huge integer")
    if -(2**63) <= value < 2**64:
        return value
    return read_float(text)


def read_float(text):
    value = float(text)
    return value if math.isfinite(value) else refuse("beyond a double")


def pairs_hook(policy):
    def hook(pairs):
        result = {}
        for key, value in pairs:
            if key in result and policy == "reject":
                refuse("duplicate key")
            if key not in result or policy == "last":
                result[key] = value
        return result

    return hook


def mend_surrogates(text, replace):
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    if not replace:
        refuse("half a surrogate pair")
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def walk(value, replace, depth=0):
    """Rebuilds a value under our rules on surrogates and depth."""
    if isinstance(value, str):
        return mend_surrogates(value, replace)
    if isinstance(value, (list, tuple, dict)) and depth == DEPTH_MAX:
        refuse("too deep")
    if isinstance(value, list):
        return [walk(v, replace, depth + 1) for v in value]
    if isinstance(value, tuple):  # the pairs of an object, before duplicates are settled
        return Pairs((mend_surrogates(k, replace), walk(v, replace, depth + 1)) for k, v in value)
    return value


class Pairs(tuple):
    """An object as read: a tuple of pairs, so that keys are mended before they are compared."""


def settle(value, hook):
    if isinstance(value, list):
        return [settle(v, hook) for v in value]
    if isinstance(value, Pairs):
        return hook([(k, settle(v, hook)) for k, v in value])
    return value


def expected(document, policy="reject", replace=False):
    """The value a document has for us, or ValueError."""
    if document.startswith(codecs.BOM_UTF8):
        refuse("byte order mark")
    text = document.decode("utf-8", "each-byte" if replace else "strict")
    try:
        value = json.loads(text, parse_constant=refuse, parse_int=read_int, parse_float=read_float,
                           object_pairs_hook=Pairs)
    except RecursionError:
        refuse("too deep")
    return settle(walk(value, replace), pairs_hook(policy))


def same(want, got):
    """Equality that tells 1 from True, 0.0 from -0.0, and minds the order of members."""
    if isinstance(want, float) and not isinstance(got, bool) and isinstance(got, (int, float)):
        return want == float(got) and math.copysign(1, want) == math.copysign(1, got)
    if type(want) is not type(got):
        return False
    if isinstance(want, list):
        return len(want) == len(got) and all(map(same, want, got))
    if isinstance(want, dict):
        return list(want) == list(got) and all(same(want[k], got[k]) for k in want)
    return want == got


def ask(program, documents, *flags):
    """Runs documents through json_echo; yields (accepted, bytes) for each."""
    stdin = b"".join(b"%d\n%s" % (len(d), d) for d in documents)
    out = subprocess.run([program, *flags, "--batch"], input=stdin, stdout=subprocess.PIPE,
                         check=True).stdout
    answers, at = [], 0
    while at < len(out):
        end = out.index(b"\n", at)
        verdict, size = out[at:end].split()
        answers.append((verdict == b"ok", out[end + 1:end + 1 + int(size)]))
        at = end + 1 + int(size)
    assert len(answers) == len(documents), "an answer for each document"
    return answers


def read_answer(text):
    return json.loads(text, parse_int=lambda t: -0.0 if t == "-0" else int(t))


def disagreement(document, answer, **rules):
    """None, or what is wrong with our answer."""
    accepted, text = answer
    try:
        want = expected(document, **rules)
    except ValueError as e:
        return f"accepted, but: {e}" if accepted else bad_message(text)
    if not accepted:
        return f"refused: {text.decode()}"
    return None if same(want, read_answer(text.decode())) else f"read as {text[:200]!r}"


def bad_message(text):
    found = re.match(rb"line \d+, column \d+: \S", text)
    return None if found else f"message without a position: {text!r}"


class Tap:
    count = failed = 0

    def report(self, name, problems, total):
        self.count += 1
        self.failed += bool(problems)
        for document, problem in problems[:5]:
            print(f"# {document[:200]!r}: {problem}")
        print(f"{'not ' if problems else ''}ok {self.count} - {name} ({total})", flush=True)

    def compare(self, name, program, documents, *flags, **rules):
        answers = ask(program, documents, "--values", *flags)
        problems = [(d, disagreement(d, a, **rules)) for d, a in zip(documents, answers)]
        self.report(name, [p for p in problems if p[1]], len(documents))


NUMBERS = """0 -0 1 -1 10 0.5 -0.0 1e5 1E-5 1.25e+3 9007199254740993 9223372036854775807 5e-324
 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 2e-324
 18446744073709551616 123456789012345678901234567890 1e22 1e23 0.1 2.2250738585072011e-308 1e-400
 1.7976931348623157e308 9007199254740993.0 3.14159265358979323846264338327950288""".split()
CHARACTERS = ["a", "Z", " ", "/", "<", ">", "&", "\x7f", "\x80", "\x85", "é", "€", "\u2028",
              "\u2029", "\ufeff", "\ufffd", "\uffff", "😀", "\U0010ffff", "\\n", "\\\"", "\\\\",
              "\\/", "\\b", "\\u0000", "\\u001f", "\\u00e9", "\\uD83D\\uDE00", "\\u2028",
              "plain text"]


def make_string(rng):
    return '"' + "".join(rng.choices(CHARACTERS, k=rng.choice([0, 1, 2, 3, 9]))) + '"'


def make_number(rng):
    if rng.random() < 0.5:
        return rng.choice(NUMBERS)
    if rng.random() < 0.5:
        return str(rng.randrange(-(10 ** rng.randrange(1, 24)), 10 ** rng.randrange(1, 24)))
    return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-320, 308))


def make_value(rng, depth=0):
    def gap():
        return rng.choice(["", "", "", " ", "\n", "\t", "\r\n "])

    kind = rng.randrange(8 if depth < 5 else 5)
    if kind < 5:
        return rng.choice([make_string, make_string, make_number, make_number,
                           lambda r: r.choice(["true", "false", "null"])])(rng)
    items = [make_value(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 3, 6, 20]))]
    if kind == 5:
        return "[" + ",".join(gap() + i + gap() for i in items) + gap() + "]"
    # Short keys from a small set repeat now and then; numbered ones never.
    numbered = rng.random() < 0.8
    keys = [f'"k{n}"' if numbered else make_string(rng) for n in range(len(items))]
    return "{" + ",".join(f"{gap()}{k}{gap()}:{gap()}{i}" for k, i in zip(keys, items)) + "}"


PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\\udc00", b"0",
          b"-", b".", b"e", b"+", b"null", b"tru", b" ", b"\n", b"\0", b"\x1f", b"\xff", b"\xc3",
          b"\xed\xa0\x80", b"NaN", b"1e999", b"//", b"'", b"\xef\xbb\xbf", b'"a":1,', b"[" * 70]


def mutate(rng, document):
    data = bytearray(document)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0:
            del data[at:at + rng.choice([1, 1, 2, 8])]
        elif how == 1:
            data[at:at] = rng.choice(PIECES)
        elif how == 2:
            data[at:at + 1] = rng.choice(PIECES)
        elif how == 3:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif how == 4:
            data[at:at] = data[at:at + rng.randrange(1, 12)]
        else:
            del data[at:]
    return bytes(data)


def check_corpus(tap, program):
    for folder, accepted in (("valid", True), ("invalid", False)):
        files = sorted((DATA / folder).iterdir())
        documents = [f.read_bytes() for f in files]
        wrong = [(f.name.encode(), a[1].decode()) for f, a in zip(files, ask(program, documents))
                 if a[0] != accepted]
        tap.report(f"corpus: {folder}", wrong, len(files))
        tap.compare(f"corpus: {folder}, like Python", program, documents)


def check_echo_is_stable(tap, program, documents):
    once = [text for accepted, text in ask(program, documents) if accepted]
    twice = ask(program, once)
    problems = [(a, f"became {b!r}") for a, b in zip(once, twice) if b != (True, a)]
    tap.report("generated: printing is a fixed point", problems, len(once))


def check_depth(tap, program):
    documents = [opening * n + b"1" + closing * n for n in (63, 64, 65, 200)
                 for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"))]
    tap.compare("depth: 64 and no more", program, documents)


def check_doubles(tap, program, rng):
    bits = [rng.getrandbits(64) for _ in range(DOUBLES)] + [e << 52 for e in range(2047)]
    bits += [rng.getrandbits(rng.randrange(1, 53)) for _ in range(500)]
    values = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in bits]
    stdin = "".join(f"{b:016x}\n" for b in bits)
    out = subprocess.run([program, "--doubles"], input=stdin, stdout=subprocess.PIPE, text=True,
                         check=True).stdout.split()

    def digits(text):
        return text.lstrip("-").split("e")[0].replace(".", "").strip("0")

    problems = [(o.encode(), repr(v)) for v, o in zip(values, out)
                if (o != "error" if not math.isfinite(v)
                    else o == "error" or float(o) != v or digits(o) != digits(repr(v)))]
    if len(out) != len(values):
        problems.append((b"", "an answer is missing"))
    tap.report("doubles: shortest digits, like repr()", problems, len(values))


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20240229
    rng = random.Random(seed)
    tap = Tap()
    print(f"# seed {seed}")
    check_corpus(tap, program)
    check_depth(tap, program)
    documents = [make_value(rng).encode() for _ in range(GENERATED)]
    mutants = [mutate(rng, rng.choice(documents)) for _ in range(MUTATED)]
    for name, batch in (("generated", documents), ("mutated", mutants)):
        tap.compare(f"{name}: strict", program, batch)
        tap.compare(f"{name}: last key wins", program, batch, "--last", policy="last")
        tap.compare(f"{name}: first key wins", program, batch, "--first", policy="first")
        tap.compare(f"{name}: invalid text replaced", program, batch, "--replace", replace=True)
    check_echo_is_stable(tap, program, documents)
    check_doubles(tap, program, rng)
    print(f"1..{tap.count}")
    return tap.failed > 0


if __name__ == "__main__":
    sys.exit(main())
