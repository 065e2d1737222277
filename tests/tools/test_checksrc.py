#!/usr/bin/env python3
"""test_checksrc.py - every house rule finds its bad example, and leaves the good one alone."""
import sys

import tap

checksrc = tap.load_tool("checksrc")

# rule, path, bad text, part of the message, good text
EXAMPLES = [
    ("unfinished_work", "src/base/a.c", "/* TODO later */\n", "open an issue", "/* to do */\n"),
    ("trailing_blanks", "tools/x.py", "a = 1 \n", "blanks at the end", "a = 1\n"),
    ("long_lines", "tests/a.py", "x" * 101 + "\n", "longer than 100", "x" * 100 + "\n"),
    ("long_lines_count_characters", "tests/a.py", "é" * 101 + "\n", "longer", "é" * 100 + "\n"),
    ("tabs", "src/base/a.c", "\tint x;\n", "a tab", "    int x;\n"),
    ("bare_malloc", "src/net/a.c", "p = malloc(3);\n", "base/mem.h", "p = mem_alloc(3);\n"),
    ("bare_strdup", "src/net/a.c", "p = strdup(s);\n", "base/mem.h", "p = mem_strdup(s);\n"),
    ("calls_only", "src/net/a.c", "p = calloc(1, 2);\n", "base/mem.h",
     '/* calloc() */ "calloc("\n'),
    ("members_are_not_calls", "src/net/a.c", "f(accept(3));\n", "leaks",
     "x->accept(3); y.pipe(p);\n"),
    ("leaky_accept", "src/net/a.c", "fd = accept(s, 0, 0);\n", "leaks into children",
     "fd = accept4(s, 0, 0, SOCK_CLOEXEC);\n"),
    ("leaky_socket", "src/net/a.c", "fd = socket(AF_UNIX, SOCK_STREAM, 0);\n", "no CLOEXEC",
     "fd = socket(AF_UNIX,\n            SOCK_STREAM | SOCK_CLOEXEC, 0);\n"),
    ("cloexec_just_above", "src/net/a.c", "a;\nb;\nc;\nd;\nfd = open(p, flags);\n", "no CLOEXEC",
     "int flags = O_CLOEXEC;\n\nfd = open(p, flags);\n"),
    ("leaky_fopen", "src/net/a.c", 'f = fopen(p, "r");\n', "close on exec",
     'f = fopen(p, "re");\n'),
    ("markup_of_terminals", "src/net/a.c", 'f("see [embedded.images]");\n', "markup",
     '/* [word] */ f("volumes[%zu], [0], [::1], [%s]:%u, [Errno]", a["x"]);\n'),
    ("markup_of_names", "src/net/a.c", 'f("[%s] is unknown", name);\n', "markup",
     'f("section %s is unknown", name);\n'),
    ("markup_that_closes", "src/net/a.c", 'f("see [/etc]");\n', "markup", 'f("see /etc");\n'),
    ("upward_include", "src/base/a.c", '#include "net/h1.h"\n', "base must not include net/h1.h",
     '#include "base/buf.h"\n'),
    ("program_includes_program", "src/osb/a.c", '#include "server/x.h"\n', "must not include",
     '#include "net/h1.h"\n#include "version.h"\n'),
    ("include_of_an_upper_room", "src/execd/core/a.c", '#include "execd/init/init.h"\n',
     "execd/core must not include execd/init/init.h", '#include "execd/core/child.h"\n'),
    ("include_across_rooms", "src/execd/files/a.c", '#include "execd/pty/pty.h"\n',
     "must not include", '#include "execd/tree/walk.h"\n'),
    ("runtime_by_name", "src/server/http/a.c", '#include "server/runtime/embedded/embedded.h"\n',
     "must not include", '#include "server/core/sandboxes.h"\n'),
    ("room_without_a_row", "src/execd/attic/a.c", "int x;\n", "has no row", None),
    ("layer_without_a_row", "src/news/a.c", "int x;\n", "has no row", None),
    ("own_header_first", "src/base/buf.c", '#include <errno.h>\n#include "base/buf.h"\n',
     "base/buf.h comes first",
     '#include "base/buf.h"\n\n#include <errno.h>\n\n#include "base/mem.h"\n'),
    ("system_headers_before_ours", "src/net/a.c", '#include "base/buf.h"\n#include <errno.h>\n',
     "<errno.h> comes before",
     '#include <errno.h>\n\n#include "base/buf.h"\n#if 1\n#include <a.h>\n'),
    ("openssl_behind_tls", "src/execd/init/a.c", "#include <openssl/ssl.h>\n",
     "OpenSSL is behind net/tls.h", None),
    ("sqlite_behind_the_store", "src/server/core/a.c", "#include <sqlite3.h>\n",
     "SQLite is behind", '#include "server/store/store.h"\n'),
    ("the_store_behind_its_interface", "src/server/core/a.c",
     '#include "server/store/store_sqlite_internal.h"\n', "SQLite is behind", None),
    ("header_comment", "src/base/a.h", "#pragma once\n", "a header opens with",
     "/* a.h - an example. */\n#pragma once\n"),
    ("long_comments", "src/base/a.c", "/* " + "x" * 98 + " */\n", "longer than 100",
     "int x = " + "1 + " * 30 + "1; /* x */\n"),
    ("persons_in_c", "src/base/a.c", "/* whoever\n * reads */\n", "is for people",
     'char *s = "he"; /* the reader; here, this, them */\n'),
    ("persons_in_scripts", "tools/x.py", "a = 1  # his\n", "is for people",
     "a = 'him'; b = \"whom\"  # it\n"),
    ("persons_in_docstrings", "tools/x.py", '"""A server, and\nwhom it lets in."""\n',
     "is for people", '"""A server, and its clients."""\n'),
    ("persons_in_documents", "docs/a.md", "A process that becomes him.\n", "is for people",
     "`him` and\n```\nhe\n```\nbecomes that user.\n"),
    ("pragma_once", "src/base/a.h", "/* a.h - an example. */\n", "#pragma once", None),
]


def found(path, text):
    return checksrc.check(path, text, exists=lambda p: p == "src/base/buf.h")


def example(rule, path, bad, message, good):
    def test():
        hits = found(path, bad)
        assert any(message in text for _, text in hits), f"not found in {bad!r}: {hits}"
        assert good is None or not found(path, good), f"found in {good!r}: {found(path, good)}"

    test.__name__ = f"checksrc finds {rule}"
    return test


def names_the_line():
    assert found("src/base/a.c", 'int x;\n/* a\n   b */ char *s = "\\"";\np = malloc(1);\n') == [
        (4, "memory comes from base/mem.h, a buf or an arena")]


def lets_mem_allocate():
    assert not found("src/base/mem.c", "void *p = malloc(1);\n")


def lets_tests_allocate():
    assert not found("tests/fuzz/replay.c", "void *p = malloc(1);\n")


if __name__ == "__main__":
    sys.exit(tap.run_tests([*(example(*row) for row in EXAMPLES), names_the_line, lets_mem_allocate,
                      lets_tests_allocate]))
