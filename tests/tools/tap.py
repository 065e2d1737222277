"""tap.py - runs test functions and prints TAP; loads a tool that has no .py in its name."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load_tool(name):
    """The module of tools/<name>, leaving no compiled file behind."""
    sys.dont_write_bytecode = True
    module_name = name.replace("-", "_") + "_tool"
    loader = importlib.machinery.SourceFileLoader(module_name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(module_name, loader))
    loader.exec_module(module)
    return module


class Skip(Exception):
    """This machine cannot answer the question; the text says why."""


class Tap:
    """Runs checks and prints TAP. A check is a callable that raises when the sentence is false."""

    def __init__(self):
        self.count = self.failed = 0
        self.exceptions = json.loads(os.environ.get("OSB_TEST_EXCEPTIONS", "{}"))

    def check(self, sentence, run, *args):
        self.count += 1
        try:
            if sentence in self.exceptions:  # of on_runtime.py, which has the list
                raise Skip(self.exceptions[sentence])
            run(*args)
            print(f"ok {self.count} - {sentence}", flush=True)
        except Skip as reason:
            print(f"ok {self.count} - {sentence} # SKIP {reason}", flush=True)
        except Exception:  # whatever went wrong, the next check still runs
            self.failed += 1
            print(f"not ok {self.count} - {sentence}")
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "), flush=True)

    def end(self):
        """Prints the plan; returns the exit status."""
        print(f"1..{self.count}")
        return 1 if self.failed or not self.count else 0


def skip_all(reason):
    """Ends the program without a test when there is a reason to."""
    if reason:
        print(f"1..0 # SKIP {reason}")
        sys.exit(0)


def run_tests(tests, world=None):
    """Runs every function; its name is the test's. Where there is a world, each test gets what
    `with world()` gives, made for it alone. Returns the exit status."""
    def run(test):
        if not world:
            return test()
        with world() as made:
            return test(made)

    tap = Tap()
    for test in tests:
        tap.check(test.__name__, run, test)
    return tap.end()
