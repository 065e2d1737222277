#!/usr/bin/env python3
"""test_top_length.py - functions are found, named and measured; only real ones."""
import pathlib
import sys
import tempfile

import tap

tool = tap.load_tool("top-length")

SOURCE = """\
struct pair {
    int a, b;
};

static const int table[] = {
    1,
};

/* Adds, slowly. */
static int add(struct pair p,
               int more)
{
    if (more) {
        return 1;
    }
    return p.a + p.b;
}

TEST(pair, is_added)
{
    CHECK(1);
}
"""


def measured(text):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "a.c"
        path.write_text(text, encoding="utf-8")
        return [(f.what, f.lines, int(f.where.rsplit(":", 1)[1])) for f in tool.functions(path)]


def lengths_are_counted_from_the_signature():
    assert measured(SOURCE) == [("add", 8, 10), ("pair.is_added", 4, 19)], measured(SOURCE)


def percentiles_of_nothing_are_zero():
    assert tool.percentile([], .9) == 0
    assert tool.percentile([3, 1, 2], .5) == 2


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        lengths_are_counted_from_the_signature,
        percentiles_of_nothing_are_zero,
    ]))
