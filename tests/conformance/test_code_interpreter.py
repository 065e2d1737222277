#!/usr/bin/env python3
"""test_code_interpreter.py async|sync IMAGE SERVER BROKER EXECD SANDBOXCTL - the official Python
client of code contexts, as PyPI has it, against the real server, broker and execd. It must be run
by a Python that has it. IMAGE is `host`, or `dir:` and a root of images/code-interpreter, or `own`:
the image that tools/images built; then UNPACK follows SANDBOXCTL."""
import logging
import os
import pathlib
import subprocess
import sys
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import sdk_code  # noqa: E402
from sdk_client import VERSION, Client, discard  # noqa: E402
from server_process import ServerProcess, why_not  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

# What `make test` installs for the second: the image is this host's /usr, which may lack it.
TYPESCRIPT = HERE.parent.parent / "build/deps/node/node_modules/typescript"


def run_language(tap, client, sandbox, codes, language):
    def missing():
        raise Skip(f"{language.program} is not in this host's PATH")

    there = client.run(sdk_code.has(sandbox, language))
    for test in sdk_code.OF_A_LANGUAGE:
        tap.check(f"{language.name}: {test.__name__}",
                  (lambda t=test: client.run(t(client, codes, language))) if there else missing)


def run_all(tap, client, image_has_typescript):
    # One sandbox for all: its contexts are apart. PATH is ours: a go or jdk of one's own counts.
    more = {} if image_has_typescript else {"env": {"PATH": os.environ["PATH"]}}
    # A busy machine needs longer than the usual ten minutes for all languages of an image.
    sandbox = client.run(client.create(sdk_code.IMAGE, entrypoint=sdk_code.ENTRYPOINT,
                                       timeout=timedelta(hours=2), **more))
    interpreter = client.run(sdk_code.open_interpreter(client, sandbox))
    codes = interpreter.codes
    if not image_has_typescript:
        client.run(sdk_code.install_typescript(sandbox, TYPESCRIPT))
    for language in sdk_code.LANGUAGES:
        run_language(tap, client, sandbox, codes, language)
    for test in sdk_code.TESTS:
        tap.check(test.__name__, lambda t=test: client.run(t(client, codes)))
    client.run(sdk_code.close_interpreter(interpreter))
    client.run(discard(sandbox))


def bring_image(server):
    subprocess.run([HERE.parent.parent / "tools/images", "--server", server.url, "--key-file",
                    server.state / "server/api_key", "code-interpreter"], check=True)


def main():
    kind, image, *programs = sys.argv[1:]
    skip_all(why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    print(f"# opensandbox {VERSION}, {kind}")
    tap = Tap()
    config = {"embedded.images": {"opensandbox/code-interpreter:*": image}}
    if image == "own":
        config = {"embedded": {"unpack_program": os.path.abspath(programs.pop())}}
    with ServerProcess(*programs, config=config) as server:
        if image == "own":
            bring_image(server)
        run_all(tap, Client(kind, server), image != "host")
        if tap.failed:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return tap.end()


sys.exit(main())
