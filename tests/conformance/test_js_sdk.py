#!/usr/bin/env python3
"""test_js_sdk.py SDK SERVER BROKER EXECD SANDBOXCTL - the official JavaScript SDK, as npm has it,
against the real server, broker and execd. SDK is its entry file; the tests are in js_*.mjs."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from server_process import ServerProcess, why_not  # noqa: E402

CONFIG = {"embedded.images": {"node:*": "host"}}


def main():
    sdk, *programs = map(os.path.abspath, sys.argv[1:])
    if why_not():
        print(f"1..0 # SKIP {why_not()}")
        return 0
    with ServerProcess(*programs, config=CONFIG) as server:
        env = {"PATH": os.environ["PATH"], "OPENSANDBOX_JS_SDK": sdk,
               "OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key,
               "OSB_TEST_EXCEPTIONS": os.environ.get("OSB_TEST_EXCEPTIONS", "{}")}
        status = subprocess.run(["node", HERE / "js_run.mjs"], env=env, check=False).returncode
        if status != 0:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return status


sys.exit(main())
