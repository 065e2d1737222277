#!/usr/bin/env python3
"""schemathesis_run.py SPEC.json [URL KEY] [OPTION...] - judges a server by its document.

schemathesis makes requests that fit the document and requests that do not, and compares each answer
with it: status, content type, body, error code, never a failure of ours. A group is a tag of the
document, or `links`, where ids of created sandboxes are used in later requests. Prints TAP; what
was created is deleted. The same seed makes the same requests, but for ids the server chose.

With --server in place of URL and KEY, starts a server of its own.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "tests/integration")]
import tap  # noqa: E402 - its place is known only now

KEY_HEADER = "OPEN-SANDBOX-API-KEY"
LINKS = "links"
ROUNDS_MAX = 8  # of one group, until it has its cases
ROUND_S_MAX = 600
ASKED_MAX = 10  # times, when there are too many requests
CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "no_failure_of_ours", "code_is_documented", "request_id_comes_back")
STANDING = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
            "resourceLimits": {}, "timeout": 7200}
SERVER_CONFIG = {"embedded.images": {"*": "host"}, "embedded": {"network": "none"}}

# Whatever is asked, the answer is for one try; nothing is kept between runs.
CONFIG = """
suppress-health-check = ["all"]
request-timeout = 60
continue-on-failure = true
warnings = false

[generation]
database = "none"
no-shrink = true

[phases.coverage]
unexpected-methods = ["put", "patch", "trace"]

[phases.stateful]
max-steps = 8
"""


def group_options(group, operations, cases):
    """How many cases each operation makes, so that the group gets its number."""
    if group == LINKS:
        return ["--phases", "stateful", "-n", str(max(cases // 8, 4))]
    return ["--phases", "examples,coverage,fuzzing", "--include-tag", group,
            "-n", str(-(-cases // operations))]


def run_round(args, group, operations, seed, folder):
    """One call of schemathesis: (exit status, its output, requests by group and by answer)."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    count = folder / "count.json"
    count.unlink(missing_ok=True)
    command = [pathlib.Path(sys.executable).parent / "schemathesis",
               "--config-file", folder / "schemathesis.toml",
               "run", args.spec.resolve(), "--url", args.url, "-H", f"{KEY_HEADER}:{args.key}",
               "--seed", str(seed), "--workers", "1",
               "--exclude-path", "/v1/events",  # a stream without an end; test_audit.py reads it
               "--checks", ",".join(CHECKS), *group_options(group, operations, args.cases)]
    env = {**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
           "OSB_COUNT": str(count), "OSB_ERRORS": str(ROOT / "specs/errors.yaml"),
           "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "NO_COLOR": "1"}
    if group != LINKS:
        env["OSB_SANDBOX"] = ask(args, "POST", "/v1/sandboxes", STANDING)["id"]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=ROUND_S_MAX, check=False)
    counted = json.loads(count.read_text()) if count.exists() else {}
    return done.returncode, done.stdout, counted


def run_group(args, group, tags):
    """Rounds with other seeds until the group has its cases. What fails is told in full."""
    total, answers = 0, {}
    with tempfile.TemporaryDirectory(prefix="schemathesis-") as folder:
        for number in range(ROUNDS_MAX):
            status, output, counted = run_round(args, group, tags.count(group), args.seed + number,
                                                pathlib.Path(folder))
            assert status == 0, f"\n{output}"
            total += sum(counted.get(tag, 0) for tag in set(tags)
                         if group in (tag, LINKS))
            for name, times in counted.items():
                answers[name] = answers.get(name, 0) + times
            if total >= args.cases:
                break
    for name, times in sorted(answers.items()):
        if name not in tags:
            print(f"# {times:6} {name}")
    print(f"# {total} requests in {number + 1} rounds")
    assert total >= args.cases, f"only {total} requests of {args.cases}"


def ask(args, method, path, body=None):
    request = urllib.request.Request(args.url + path, method=method,
                                     data=json.dumps(body).encode() if body else None,
                                     headers={KEY_HEADER: args.key,
                                              "Content-Type": "application/json"})
    for left in reversed(range(ASKED_MAX)):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code != 429 or not left:
                raise
            time.sleep(float(error.headers["Retry-After"]))  # a made request set the tenant's rate
    return None


def delete_all(args):
    """Page 1 until there is none; a made request may have limited our tenant."""
    with contextlib.suppress(urllib.error.HTTPError):  # a stand-in has no tenants
        ask(args, "PATCH", "/v1/tenants/default", {"quota": {"requestsPerSecond": None}})
    for _ in range(1000):
        items = ask(args, "GET", "/v1/sandboxes?pageSize=200")["items"]
        if not items:
            return
        for item in items:
            with contextlib.suppress(urllib.error.HTTPError):  # it expired meanwhile
                ask(args, "DELETE", f"/v1/sandboxes/{item['id']}")
    raise AssertionError("sandboxes do not end")


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", type=pathlib.Path, help="the document, as JSON")
    parser.add_argument("url", nargs="?", help="of a running server, without a slash at the end")
    parser.add_argument("key", nargs="?", help="its API key")
    parser.add_argument("--server", nargs=4, metavar=("SERVER", "BROKER", "EXECD", "SANDBOXCTL"),
                        help="programs of a server to start and judge")
    parser.add_argument("--cases", type=int, default=2000, help="requests per group, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", action="append", help="only this one; may be repeated")
    args = parser.parse_args(argv)
    if bool(args.key) == bool(args.server):
        parser.error("either URL and KEY, or --server")
    return args


def run(args):
    """TAP for every group; returns the exit status."""
    paths = json.loads(args.spec.read_text(encoding="utf-8"))["paths"]
    tags = [operation["tags"][0] for item in paths.values() for operation in item.values()
            if isinstance(operation, dict) and "tags" in operation]
    checks = tap.Tap()
    groups = [*dict.fromkeys(tags), LINKS]
    groups.sort(key=lambda name: name == "tenants")  # last: it sets our own quota
    for group in args.group or groups:
        checks.check(f"answers to requests of the group {group} are as documented",
                     run_group, args, group, tags)
    checks.check("everything that was created can be deleted", delete_all, args)
    return checks.end()


def run_own_server(args):
    import server_process  # in tests/integration
    tap.skip_all(server_process.why_not())
    with server_process.ServerProcess(*map(os.path.abspath, args.server),
                                      config=SERVER_CONFIG) as server:
        args.url, args.key = server.url, server.api_key
        return run(args)


if __name__ == "__main__":
    arguments = parse_args(sys.argv[1:])
    sys.exit(run_own_server(arguments) if arguments.server else run(arguments))
