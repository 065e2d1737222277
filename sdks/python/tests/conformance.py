#!/usr/bin/env python3
"""conformance.py async|sync [--real DOMAIN KEY IMAGE] [--only TEXT] [--published] - run the cases
of sdks/conformance with the Python SDK. Prints TAP. With --published it is the published SDK: a
method or an option that it lacks makes the case a skip."""
import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SERVER = HERE.parents[1] / "conformance/server.py"

from operations import Operations, error_form  # noqa: E402

CASE_SECONDS_MAX = 120


class Scripted:
    """server.py, and its control API."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.control = json.loads(self.process.stdout.readline())["control"]
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, method=method, data=data)
        with urllib.request.urlopen(request, timeout=CASE_SECONDS_MAX) as answer:
            return json.load(answer)


# What a call of a method or an option that is not there raises.
LACKING = (AttributeError, ImportError, TypeError)


async def run_steps(case, session, server, kind, lacking=()):
    """Runs the steps of a case; exceptions that no SDK should raise are problems of their own."""
    operations = Operations(kind, case["config"])
    problems = []
    try:
        for number, step in enumerate(case["steps"]):
            try:
                report = {"result": await operations.run(step["do"], step.get("with") or {})}
            except NotImplementedError:
                raise
            except Exception as error:
                form = error_form(error)
                if form is None and isinstance(error, lacking):
                    raise NotImplementedError(f"{step['do']}: {error}") from error
                if form is None:
                    problems.append(f"step {number} raised {error!r}")
                    form = {"class": type(error).__name__, "message": str(error)}
                report = {"error": form}
            server.call("POST", f"/sessions/{session}/steps/{number}", report)
    finally:
        await operations.close()
    return problems


def finish(coroutine, kind):
    """Runs a coroutine to its end: with a loop, or without one for the sync client, which never
    suspends."""
    if kind == "async":
        return asyncio.run(asyncio.wait_for(coroutine, CASE_SECONDS_MAX))
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call of the sync client was suspended")


def run_case(server, name, mode, kind, names, lacking=()):
    """The problems of a case; a reason to skip it."""
    made = server.call("POST", "/sessions", {"case": name, "mode": mode, "names": names,
                                             "published": bool(lacking)})
    case, session = made["case"], made["session"]
    kept = dict(os.environ)
    for variable in [v for v in os.environ if v.startswith("OPEN_SANDBOX_")]:
        del os.environ[variable]
    os.environ.update(case["env"])
    try:
        problems = finish(run_steps(case, session, server, kind, lacking), kind)
    except NotImplementedError as missing:
        return [], f"there is no {missing}"
    finally:
        os.environ.clear()
        os.environ.update(kept)
    verdict = server.call("POST", f"/sessions/{session}/finish", {})
    problems += verdict["problems"]
    if verdict["open_connections"]:
        problems.append(f"{verdict['open_connections']} connections are open after close")
    return problems, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["async", "sync"])
    parser.add_argument("--real", nargs=3, metavar=("DOMAIN", "KEY", "IMAGE"))
    parser.add_argument("--only", default="")
    parser.add_argument("--published", action="store_true")
    args = parser.parse_args()
    mode, names = "scripted", {}
    if args.real:
        domain, key, image = args.real
        mode, names = "real", {"image": image, "config": {"domain": domain, "api_key": key}}
    failed = count = 0
    with Scripted() as server:
        for row in server.call("GET", "/cases")["cases"]:
            if mode not in row["modes"] or args.only not in row["id"]:
                continue
            count += 1
            problems, skip = run_case(server, row["id"], mode, args.kind, names,
                                      LACKING if args.published else ())
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {count} - {row['id']}"
                  f"{' # SKIP ' + skip if skip else ''}", flush=True)
            for problem in problems:
                print(f"# {problem}", flush=True)
    print(f"1..{count}")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
