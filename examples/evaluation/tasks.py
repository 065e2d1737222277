"""tasks.py - fifty tasks in the shape of SWE-bench, and the predictions of a model for them.

A task is a repository with a bug (files), a problem statement, and tests: FAIL_TO_PASS fail
before the fix and pass after it, PASS_TO_PASS pass before and after. A prediction is a patch.
The predictions of this file are made to come out in every way: most are right, some fix
nothing, some break what worked, some do not apply, some never end.
"""
import difflib

# name: (problem, line with the bug, line of the fix, a line that breaks everything, tests).
# A test is (name, expression that must be true); the first ones fail with the bug.
BUGS = {
    "clamp": ("clamp() ignores the upper bound", "return max(low, x)",
              "return min(high, max(low, x))", "return None", "x, low, high",
              [("upper", "f(9, 0, 5) == 5"), ("lower", "f(-3, 0, 5) == 0"),
               ("inside", "f(3, 0, 5) == 3")]),
    "mean": ("mean() of an empty list raises", "return sum(xs) / len(xs)",
             "return sum(xs) / len(xs) if xs else 0.0", "return 0.0", "xs",
             [("empty", "f([]) == 0.0"), ("one", "f([4]) == 4"), ("two", "f([1, 2]) == 1.5")]),
    "slug": ("slug() keeps capital letters", 'return "-".join(text.split())',
             'return "-".join(text.lower().split())', 'return ""', "text",
             [("capitals", 'f("Ab C") == "ab-c"'), ("spaces", 'f("a  b") == "a-b"'),
              ("plain", 'f("a") == "a"')]),
    "chunks": ("chunks() loses the last chunk",
               "return [xs[i:i + n] for i in range(0, len(xs) - n + 1, n)]",
               "return [xs[i:i + n] for i in range(0, len(xs), n)]", "return xs", "xs, n",
               [("rest", "f([1, 2, 3], 2) == [[1, 2], [3]]"),
                ("even", "f([1, 2], 1) == [[1], [2]]"),
                ("empty", "f([], 3) == []")]),
    "leap": ("leap() is wrong for centuries", "return y % 4 == 0",
             "return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)", "return True", "y",
             [("century", "not f(1900)"), ("plain", "f(2024)"), ("odd", "not f(2023)")]),
    "unique": ("unique() changes the order", "return sorted(set(xs))",
               "return list(dict.fromkeys(xs))", "return []", "xs",
               [("order", "f([3, 1, 3]) == [3, 1]"), ("one", "f([1]) == [1]"),
                ("sorted", "f([1, 2]) == [1, 2]")]),
    "celsius": ("celsius() subtracts after the division", "return f * 5 / 9 - 32",
                "return (f - 32) * 5 / 9", "return f", "f",
                [("boiling", "f(212) == 100"), ("freezing", "f(32) == 0"),
                 ("callable", "callable(f)")]),
    "words": ("words() counts empty words", 'return len(text.split(" "))',
              "return len(text.split())", "return 0", "text",
              [("spaces", 'f("a  b") == 2'), ("one", 'f("a") == 1'), ("two", 'f("a b") == 2')]),
    "parity": ("parity() is wrong for negative numbers", "return abs(n) % 2 if n > 0 else 0",
               "return n % 2", "return 2", "n",
               [("negative", "f(-3) == 1"), ("even", "f(4) == 0"), ("odd", "f(5) == 1")]),
    "rotate": ("rotate() turns the wrong way", "return xs[-n:] + xs[:-n]",
               "return xs[n:] + xs[:n]", "return []", "xs, n",
               [("left", "f([1, 2, 3], 1) == [2, 3, 1]"), ("zero", "f([1, 2], 0) == [1, 2]"),
                ("half", "f([1, 2], 1) == [2, 1]")]),
}
VARIANTS = 5


def source(name, arguments, line):
    return f'"""{name}.py - of a small library."""\n\n\ndef {name}({arguments}):\n    {line}\n'


def test_file(name, tests):
    cases = "\n\n".join(f"    def test_{case}(self):\n        f = {name}\n"
                        f"        self.assertTrue({text})" for case, text in tests)
    return f"import unittest\n\nfrom {name} import {name}\n\n\n" \
        f"class Test(unittest.TestCase):\n{cases}\n"


def patch(name, before, after):
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True),
                                        f"a/{name}.py", f"b/{name}.py"))


def prediction(number, name, arguments, bug, fix, breaks):
    """The patch that the model proposes."""
    before = source(name, arguments, bug)
    if number in (7, 19, 31, 43):
        return patch(name, before, source(name, arguments, bug + "  # looked at"))
    if number in (11, 29):
        return patch(name, before, source(name, arguments, breaks))
    if number in (23, 37):
        return "--- a/other.py\n+++ b/other.py\n@@ -1 +1 @@\n-nothing\n+something\n"
    if number == 47:
        return patch(name, before, source(name, arguments, "while True: pass"))
    return patch(name, before, source(name, arguments, fix))


def tasks():
    """Fifty (task, prediction)."""
    made = []
    for variant in range(VARIANTS):
        for name, (problem, bug, fix, breaks, arguments, tests) in BUGS.items():
            number = len(made)
            failing = tests[:2] if name == "celsius" else tests[:1]
            rest = tests[len(failing):]
            made.append(({
                "instance_id": f"example__{name}-{variant + 1}", "problem_statement": problem,
                "files": {f"{name}.py": source(name, arguments, bug),
                          f"test_{name}.py": test_file(name, tests),
                          "README": f"revision {variant + 1}\n"},
                "FAIL_TO_PASS": [f"test_{case}" for case, _ in failing],
                "PASS_TO_PASS": [f"test_{case}" for case, _ in rest],
            }, {"instance_id": f"example__{name}-{variant + 1}",
                "model_patch": prediction(number, name, arguments, bug, fix, breaks)}))
    return made
