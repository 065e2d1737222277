"""tap.py - runs test functions and prints TAP; loads a tool that has no .py in its name."""
import importlib.machinery
import importlib.util
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


def run(tests):
    """Runs every function; its name is the test's. Returns the exit status."""
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}")
        except Exception:  # whatever it is, it is this test's failure
            failed += 1
            print(f"not ok {number} - {test.__name__}")
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "))
    return 1 if failed else 0
