#!/usr/bin/env python3
"""test_osb.py OSB SERVER BROKER EXECD SANDBOXCTL - osb against the real server: what the original
tool does not have. The rest is compared with it in tests/conformance/test_osb_pair.py."""
import contextlib
import hashlib
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools")]

from osb_process import Osb, Screen  # noqa: E402
from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Tap, skip_all  # noqa: E402
from tls_process import Authority, TlsServer  # noqa: E402


# --- commands ---


def run_makes_and_removes_a_sandbox(osb):
    before = osb.ids()
    done = osb.run("run", "--rm", "--image", "host", "-e", "A=b", "--", "sh", "-c",
                   "echo $A; echo two; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "b\ntwo\n", "err\n"), done
    assert osb.ids() == before


def default_signals():
    """What ignores a signal passes that on, as nohup does, and osb goes on ignoring it."""
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signo, signal.SIG_DFL)


@contextlib.contextmanager
def killed(process):
    try:
        yield
    finally:
        process.kill()


def run_that_is_ended_removes_its_sandbox(osb):
    """Whenever the signal comes: once its sandbox is there, or once its command runs."""
    before = osb.ids()
    for signo, begun in ((signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGINT, False)):
        with subprocess.Popen([osb.program, "run", "--rm", "--image", "host", "--", "sh", "-c",
                               "echo begun; exec sleep 1000"], env=osb.env, bufsize=0,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              preexec_fn=default_signals) as process, killed(process):
            if begun:
                assert process.stdout.read(5) == b"begun"
            else:
                wait_for(lambda: osb.ids() != before, "the sandbox")
            process.send_signal(signo)
            assert process.wait(SECONDS_MAX) == 128 + signo
        assert osb.ids() == before, signo


def run_renews_a_sandbox_without_a_lifetime(osb):
    before = osb.ids()

    def expiry():
        return [item["expires_at"] for item in osb.json("sandbox", "list")["items"]
                if item["id"] not in before]

    for words, renews in (((), True), (("--timeout", "5m"), False)):
        with subprocess.Popen([osb.program, "run", "--rm", "--image", "host", *words, "--", "sleep",
                               "1000"], env=osb.env, stdin=subprocess.DEVNULL) as process:
            wait_for(expiry, "the sandbox")
            at = expiry()
            if renews:
                wait_for(lambda at=at: expiry() != at, "the first renewal")
            else:
                assert expiry() == at
            process.terminate()
            assert process.wait(SECONDS_MAX) == 128 + signal.SIGTERM
        assert osb.ids() == before


def run_keeps_a_sandbox_whose_terminal_is_left(osb):
    before = osb.ids()
    screen = Screen(osb, "run", "--rm", "-it", "--image", "host", columns=200)
    screen.type("echo re''ady\r")
    screen.wait("ready")
    screen.type("\x10\x11")
    screen.wait("comes back")
    assert screen.end() == 0
    box, = osb.ids() - before
    assert osb.json("sandbox", "get", box)["status"]["state"] == "Running"
    osb.ok("sandbox", "kill", box)


def run_passes_input_on(osb):
    assert osb.ok("run", "--rm", "-i", "--image", "host", "cat", stdin="a\nb\n") == "a\nb\n"


def a_create_is_repeated_by_its_key(osb):
    words = ("sandbox", "create", "--image", "host", "-q", "--idempotency-key", "once")
    assert osb.ok(*words) == (box := osb.ok(*words))
    assert osb.run(*words, "-m", "a=b").returncode == 1  # another request
    osb.ok("sandbox", "kill", box.strip())


def ids_are_for_other_programs(osb):
    made = {osb.ok("sandbox", "create", "--image", "host", "-q", "-m", "ids=yes").strip()
            for _ in range(3)}
    assert set(osb.ok("ps", "-q", "-m", "ids=yes").split()) == made
    assert set(osb.ok("sandbox", "list", "-q").split()) == osb.ids()
    assert len(osb.ok("ps", "-q", "-m", "ids=yes", "--page-size", "2", "--page", "2").split()) == 1
    done = osb.run("ps", "-m", "ids=yes", "--page-size", "2")
    assert "Page 1 of 2; --page 2" in done.stderr and len(done.stdout.splitlines()) > 3, done
    osb.ok("sandbox", "kill", *made)


def input_is_passed_on_as_it_comes(osb, box):
    with subprocess.Popen([osb.program, "exec", "-i", box, "cat"], env=osb.env, bufsize=0,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process, \
            killed(process):
        for given in (b"one\n", b"two\n"):
            process.stdin.write(given)  # what comes of it comes whole, before there is more
            assert b"".join(process.stdout.read(1) for _ in given) == given
        process.stdin.close()
        assert process.stdout.read() == b"" and process.wait(SECONDS_MAX) == 0
    with subprocess.Popen([osb.program, "exec", "-i", box, "sh", "-c",
                           "printf 'name: '; read x; echo $x; printf end"], env=osb.env, bufsize=0,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process, \
            killed(process):
        assert b"".join(process.stdout.read(1) for _ in range(6)) == b"name: "
        out, _ = process.communicate(b"me\n", timeout=SECONDS_MAX)
        assert (process.returncode, out) == (0, b"me\nend\n"), out


def input_may_be_large_or_left_unread(osb, box):
    large = osb.home / "large"
    with large.open("wb") as file:
        file.truncate(20 << 20)
    with large.open("rb") as file:
        done = subprocess.run([osb.program, "exec", "-i", box, "sha256sum"], env=osb.env,
                              stdin=file, capture_output=True, check=True, timeout=SECONDS_MAX)
    assert done.stdout.split()[0] == hashlib.sha256(bytes(20 << 20)).hexdigest().encode(), done
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless, killed(endless), \
            subprocess.Popen([osb.program, "command", "run", box, "-i", "--", "head", "-n", "1"],
                             env=osb.env, stdin=endless.stdout, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) as process, killed(process):
        out, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, errors) == (0, b"y\n", b""), (process.returncode, out, errors)
    with subprocess.Popen([osb.program, "exec", "-i", box, "true"], env=osb.env,
                          stdin=subprocess.PIPE) as process, killed(process):
        assert process.wait(SECONDS_MAX) == 0  # though its input goes on


def statuses_are_those_of_shells(osb, box):
    assert osb.run("exec", box, "sh", "-c", "exit 42").returncode == 42
    assert osb.run("exec", "--command-timeout", "1s", box, "sleep", "30").returncode == 124
    assert osb.run("exec", box, "sh", "-c", "kill -9 $$").returncode == 137


def output_is_exact(osb, box):
    assert osb.ok("exec", box, "printf", "a\\n\\n\\nb\\n") == "a\n\n\nb\n"
    long = osb.ok("exec", box, "sh", "-c", "head -c 1500000 /dev/zero | tr '\\0' x")
    assert long == "x" * 1500000 + "\n", len(long)


def logs_follow(osb, box):
    command = osb.json("command", "run", box, "-d", "--", "sh", "-c",
                       "echo one; sleep 1; echo two; exit 5")["execution_id"]
    done = osb.run("command", "logs", "-f", box, command)
    assert (done.returncode, done.stdout) == (5, "one\ntwo\n"), done


def copies_both_ways(osb, box):
    tree = osb.home / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "x").write_bytes(bytes(range(256)))
    (tree / "run").write_text("#!/bin/sh\n", encoding="ascii")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    osb.ok("cp", str(tree), f"{box}:/tmp/there")
    assert osb.ok("exec", box, "readlink", "/tmp/there/link") == "run\n"
    osb.ok("cp", f"{box}:/tmp/there", str(osb.home / "back"))
    assert (osb.home / "back/sub/x").read_bytes() == bytes(range(256))
    assert (osb.home / "back/run").stat().st_mode & 0o777 == 0o755
    osb.ok("cp", str(tree / "run"), f"{box}:/tmp/there/")
    osb.ok("cp", f"{box}:/tmp/there/run", str(osb.home))
    assert (osb.home / "run").read_text(encoding="ascii") == "#!/bin/sh\n"
    assert osb.run("cp", "a", "b").returncode == 1


def logs_of_a_sandbox(osb):
    box = osb.json("sandbox", "create", "--image", "host", "--entrypoint", "sh", "--entrypoint",
                   "-c", "--entrypoint", "echo said at start; sleep infinity")["id"]
    wait_for(lambda: "said at start" in osb.ok("logs", box), "what it said")
    process = subprocess.Popen([osb.program, "logs", "-f", box], stdout=subprocess.PIPE, text=True,
                               env=osb.env)
    assert "said at start" in process.stdout.readline()
    process.send_signal(2)
    assert process.wait(SECONDS_MAX) == 0
    process.stdout.close()
    osb.ok("sandbox", "kill", box)


def code_runs(osb, box):
    assert osb.ok("code", box, "-c", "print(6 * 7)") == "42\n"
    typed = "x = 5\nfor i in range(2):\n    print(i + x)\n\nx * 2\n"
    assert osb.ok("code", box, stdin=typed) == "5\n6\n10\n"
    done = osb.run("code", box, "-c", "1 / 0")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr, done


def top_shows_sandboxes(osb, box):
    assert box in osb.ok("top", "--once")
    assert box in osb.ok("ps")


def forks(osb, box):
    osb.ok("file", "write", box, "/root/marked", "-c", "before the fork")
    done = osb.run("-o", "json", "fork", box, "-n", "2", "-m", "made=by-fork")
    assert done.returncode == 0, done
    copies = [item["id"] for item in json.loads(done.stdout)["items"]]
    assert len(copies) == 2, copies
    for name in copies:
        wait_for(lambda: osb.json("sandbox", "get", name)["status"]["state"] == "Running", "it")
        assert osb.ok("file", "cat", name, "/root/marked") == "before the fork"
    osb.ok("sandbox", "kill", *copies)
    assert osb.run("fork", box, "-n", "101").returncode == 2
    for words in (("fork", box, "--memory"), ("snapshot", "create", box, "--memory")):
        done = osb.run(*words)  # the server is asked, and has no gVisor
        assert done.returncode == 1 and "memory" in done.stderr, done


class StandIn(http.server.BaseHTTPRequestHandler):
    """Answers as a server with pools and an egress daemon would, and keeps what it was asked."""

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.seen.append((self.command, self.path, json.loads(body) if body else None))
        status, answer = self.server.answers[(self.command, self.path)]
        data = json.dumps(answer).encode() if answer is not None else b""
        if self.path.startswith("/egress"):
            assert self.headers["X-Egress"] == "token", self.headers
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

    def log_message(self, *_):
        pass


def one_request_commands(osb):
    pool = {"name": "a", "capacitySpec": {"poolMax": 2}, "status": {"total": 1}}
    state = {"revision": 1, "credentials": [{"name": "c", "sourceType": "inline", "revision": 1}],
             "bindings": []}
    port = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    at = f"127.0.0.1:{port.server_address[1]}"
    port.seen, port.answers = [], {
        ("GET", "/v1/pools"): (200, {"items": [pool]}),
        ("GET", "/v1/pools/a%2Fb"): (200, pool),
        ("POST", "/v1/pools"): (201, pool),
        ("PUT", "/v1/pools/a"): (200, pool),
        ("DELETE", "/v1/pools/a"): (204, None),
        ("GET", "/v1/sandboxes/box/endpoints/44772"):
            (200, {"endpoint": f"{at}/execd", "headers": {}}),
        ("GET", "/v1/sandboxes/box/endpoints/18080"):
            (200, {"endpoint": f"{at}/egress", "headers": {"X-Egress": "token"}}),
        ("GET", "/egress/policy"):
            (200, {"policy": {"defaultAction": "deny", "egress": []}}),
        ("PATCH", "/egress/policy"): (200, {}),
        ("DELETE", "/egress/policy"): (200, {}),
        ("POST", "/egress/credential-vault"): (201, state),
        ("GET", "/egress/credential-vault/credentials"):
            (200, {"revision": 1, "credentials": state["credentials"]}),
        ("DELETE", "/egress/credential-vault"): (204, None),
    }
    threading.Thread(target=port.serve_forever, daemon=True).start()
    file = osb.home / "request.json"
    file.write_text('{"name": "a", "credentials": [], "bindings": []}', encoding="ascii")
    to = ["--domain", at]
    shown = {"name": "a", "capacity_spec": {"pool_max": 2}, "status": {"total": 1}}
    assert osb.json(*to, "pool", "list") == {"items": [shown]}
    assert "│ a " in osb.ok(*to, "pool", "list")
    assert osb.json(*to, "pool", "get", "a/b") == shown
    assert osb.json(*to, "pool", "create", "-f", str(file)) == shown
    assert osb.json(*to, "pool", "update", "a", "-f", str(file)) == shown
    assert "a" in osb.json(*to, "pool", "delete", "a")["message"]
    assert osb.json(*to, "egress", "get", "box") == {"default_action": "deny", "egress": []}
    osb.ok(*to, "egress", "patch", "box", "--rule", "allow=a.b", "--rule", "Deny=c")
    assert port.seen[-1][2] == [{"action": "allow", "target": "a.b"},
                                {"action": "deny", "target": "c"}], port.seen[-1]
    osb.ok(*to, "egress", "delete", "box", "a.b")
    assert port.seen[-1][2] == ["a.b"], port.seen[-1]
    vault = [*to, "credential-vault"]
    assert osb.json(*vault, "create", "box", "--file", str(file))["credentials"] == \
        [{"name": "c", "source_type": "inline", "revision": 1}]
    assert osb.json(*vault, "credential", "list", "box") == \
        [{"name": "c", "source_type": "inline", "revision": 1}]
    assert osb.json(*vault, "delete", "box") == {"sandbox_id": "box", "status": "deleted"}
    file.write_text('{"credentials": {}}', encoding="ascii")
    done = osb.run(*vault, "create", "box", "--file", str(file))
    assert done.returncode == 1 and "'credentials' must be a list" in done.stderr, done
    port.shutdown()
    port.server_close()


def goes_back_to_a_snapshot(osb, box):
    osb.ok("file", "write", box, "/root/state", "-c", "old")
    snapshot = osb.json("snapshot", "create", box)["id"]
    wait_for(lambda: osb.json("snapshot", "get", snapshot)["status"]["state"] == "Ready", "it")
    osb.ok("file", "write", box, "/root/state", "-c", "new")
    osb.ok("rollback", box, snapshot)
    wait_for(lambda: osb.run("file", "cat", box, "/root/state").stdout == "old", "the old state")
    osb.ok("snapshot", "delete", snapshot)


def serve_inside(osb, box, env=None):
    osb.ok("file", "write", box, "/tmp/web/index.html", "-c", "from inside", env=env)
    osb.ok("command", "run", box, "-d", "--", "python3", "-m", "http.server", "-d", "/tmp/web",
           "8123", env=env)


def page_comes(url):
    with contextlib.suppress(OSError):  # until the server inside listens
        with urllib.request.urlopen(f"{url}/index.html?x=1", timeout=20) as answer:
            return answer.read() == b"from inside"
    return False


def forwards_a_port(osb, box, env=None):
    serve_inside(osb, box, env)
    with subprocess.Popen([osb.program, "port-forward", box, "0:8123"], stdout=subprocess.PIPE,
                          text=True, env={**osb.env, **(env or {})}) as process, killed(process):
        url = process.stdout.readline().split()[0]
        wait_for(lambda: page_comes(url), "the page")
        process.send_signal(2)
        assert process.wait(SECONDS_MAX) == 0
    assert osb.run("port-forward", box, "x").returncode == 2


def forwards_a_port_by_https(osb, programs):
    authority = Authority(osb.home)
    with TlsServer(authority, *programs) as server:
        env = {"OPEN_SANDBOX_DOMAIN": server.url, "OPEN_SANDBOX_API_KEY": server.api_key,
               "SSL_CERT_FILE": str(authority.ca)}
        box = osb.ok("sandbox", "create", "--image", "host", "-q", env=env).strip()
        forwards_a_port(osb, box, env)
        osb.ok("sandbox", "kill", box, env=env)


def metadata_and_health(osb, box):
    assert osb.json("sandbox", "metadata", box, "a=1", "b=2")["metadata"]["a"] == "1"
    assert osb.json("sandbox", "metadata", box, "a")["metadata"] == {"b": "2"}
    assert osb.run("sandbox", "health", box).returncode == 0
    osb.ok("sandbox", "pause", box)
    assert osb.run("sandbox", "health", box).returncode == 1
    osb.ok("sandbox", "resume", box)


def metrics_are_watched(osb, box):
    process = subprocess.Popen([osb.program, "sandbox", "metrics", box, "--watch", "-o", "json"],
                               stdout=subprocess.PIPE, text=True, env=osb.env)
    assert json.loads(process.stdout.readline())["cpu_count"] > 0
    process.send_signal(2)
    assert process.wait(SECONDS_MAX) == 0
    process.stdout.close()


def errors_tell_what_to_do(osb):
    done = osb.run("sandbox", "list", env={"OPEN_SANDBOX_API_KEY": "wrong"})
    assert done.returncode == 1 and "--api-key" in done.stderr and not done.stdout, done
    done = osb.run("-o", "json", "sandbox", "get", "unknown")
    said = json.loads(done.stderr)
    assert done.returncode == 1 and said["status"] == "error" and said["http_status"] == 404, done
    done = osb.run("--domain", "127.0.0.1:1", "sandbox", "list")
    assert done.returncode == 1 and "osb up" in done.stderr, done
    done = osb.run("--domain", "127.0.0.1:1", "doctor")
    assert done.returncode == 1 and "osb up" in done.stdout, done
    assert [row["result"] for row in osb.json("doctor")[-2:]] == ["ok", "ok"]
    version = osb.ok("--version").split()[-1]
    assert f"osb {version}, server {version}" in osb.ok("doctor")


def errors_are_json_where_that_was_asked_for(osb):
    bad = osb.home / "bad.toml"
    bad.write_text("x = [", encoding="ascii")
    nowhere = ("-o", "json", "--domain", "127.0.0.1:1")
    for status, *words in (
            (2, "sandbox", "list", "--nonsense", "-o", "json"),
            (2, "sandbox", "list", "extra", "--output=JSON"),
            (2, "sandbox", "create", "-e", "wrong", "-ojson"),
            (2, "-o", "json", "nonsense"),
            (2, "-o", "json", "run", "--image", "host"),
            (1, "--config", str(bad), "sandbox", "list", "-o", "json"),
            (1, "--config", str(bad), "-o", "json", "exec", "box", "true"),
            (1, *nowhere, "run", "--image", "host", "--", "true"),
            (1, *nowhere, "exec", "box", "true"),
            (1, *nowhere, "shell", "box"),
            (1, *nowhere, "logs", "box"),
            (1, *nowhere, "top", "--once"),
            (1, *nowhere, "code", "box", "-c", "1"),
            (1, *nowhere, "port-forward", "box", "80"),
            (1, *nowhere, "watch", "box", "/"),
            (1, *nowhere, "sync", "--once", str(osb.home), "box:/x"),
            (1, *nowhere, "sandbox", "kill", "box"),
    ):
        done = osb.run(*words)
        assert done.returncode == status and json.loads(done.stderr)["status"] == "error", (
            words, done)
    # What belongs to the command is none of ours.
    done = osb.run("--domain", "127.0.0.1:1", "exec", "box", "grep", "-o", "json")
    assert done.returncode == 1 and done.stderr.startswith("ERROR ["), done
    done = osb.run("-o", "yaml", "sandbox", "nonsense")
    assert done.returncode == 2 and "status: error\n" in done.stderr, done


def kill_goes_on_after_an_error(osb):
    box = osb.json("sandbox", "create", "--image", "host")["id"]
    done = osb.run("-o", "json", "sandbox", "kill", "unknown", box)
    assert done.returncode == 1, done
    assert [row["status"] for row in json.loads(done.stdout)] == ["error", "terminated"], done


def colours_are_for_terminals(osb):
    assert "\033" not in osb.ok("sandbox", "list")
    screen = Screen(osb, "config", "show")
    screen.wait("Resolved")
    assert screen.end() == 0


COMPLETED = [  # the words of a line, the last of them unfinished, and what is offered
    (("sandbox", "cr"), {"create"}),
    (("sandbox", "list", "-o", "y"), {"yaml"}),
    (("--domain", "sandbox", "tenant", "cr"), {"create"}),
    (("command", "session", "cr"), {"create"}),
    (("run", "--pull", ""), {"IfNotPresent", "Always", "Never"}),
    (("skills", "install", "-t", "cl"), {"claude", "cline"}),
    (("run", "--image", ""), set()),
    (("run", "--persi"), {"--persistent"}),
    (("--pro",), {"--protocol"}),
    (("--protocol", ""), {"http", "https"}),
    (("file", "cat", "{box}", ""), set()),
    (("exec", ""), {"{box}"}),
    (("sandbox", "renew", "-t", "9m", ""), {"{box}"}),
    (("sandbox", "kill", "{box}", ""), {"{box}"}),
]


def completed_by_bash(script, words, env):
    quoted = " ".join(f"'{word}'" for word in words)
    script += f'COMP_WORDS=(osb {quoted}); COMP_CWORD={len(words)}; _osb_complete\n' \
              'echo "${COMPREPLY[@]}"\n'
    return subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=True,
                          env=env)


def completions_are_read_by_bash(osb):
    box = osb.ok("sandbox", "create", "--image", "host", "-q").strip()
    assert osb.ids() == {box}
    env = {**osb.env, "PATH": f"{pathlib.Path(osb.program).parent}:{osb.env['PATH']}"}
    script = osb.ok("completion", "bash")
    for words, wanted in COMPLETED:
        done = completed_by_bash(script, [word.format(box=box) for word in words], env)
        offered = set(done.stdout.split())
        assert offered == {word.format(box=box) for word in wanted} and not done.stderr, (
            words, done.stdout, done.stderr)
    osb.ok("sandbox", "kill", box)


# --- terminals ---


def shell_is_a_terminal(osb, box):
    screen = Screen(osb, "shell", box)
    screen.type("stty size; echo st''art\r")
    screen.wait("start")
    screen.wait("24 80")
    screen.resize(100, 30)
    screen.type("sleep 1000\r")
    screen.wait("sleep 1000")
    screen.type("\x03")
    screen.type("stty size; echo in''terrupted\r")
    screen.wait("30 100")
    screen.wait("interrupted")
    screen.type("exit 9\r")
    assert screen.end() == 9


def detaches_and_comes_back(osb, box):
    screen = Screen(osb, "shell", box, columns=200)
    screen.type("KEPT=ke''pt; echo re''ady\r")
    screen.wait("ready")
    screen.type("\x10\x11")
    screen.wait("--attach")
    shown = " ".join(line.strip() for line in screen.screen.display)
    name = shown.split("--attach ")[1].split()[0]
    assert screen.end() == 0
    again = Screen(osb, "shell", box, "--attach", name)
    again.wait("ready")  # replayed
    again.type("echo [$KEPT]\r")
    again.wait("[kept]")
    again.type("exit\r")
    assert again.end() == 0


def exec_with_a_terminal(osb, box):
    screen = Screen(osb, "exec", "-it", box, "sh", "-c", "test -t 0 && echo is a terminal; exit 4")
    screen.wait("is a terminal")
    assert screen.end() == 4
    for option, value in (("--uid", "1000"), ("--command-timeout", "9s")):
        done = osb.run("exec", "-t", option, value, box, "true")
        assert done.returncode == 2 and f"{option} does not go with --tty" in done.stderr, done


def terminals_have_the_variables_that_were_given(osb, box):
    given = ("-e", "A=it's here", "-e", "B=2")
    screen = Screen(osb, "exec", "-it", *given, box, "sh", "-c", "echo [$A-$B]; exit 3")
    screen.wait("[it's here-2]")
    assert screen.end() == 3
    screen = Screen(osb, "shell", *given, box)
    screen.type("echo \"<$A-$B>\"; exit 5\r")
    screen.wait("<it's here-2>")
    assert screen.end() == 5


LIFE_TESTS = [
    run_makes_and_removes_a_sandbox,
    run_that_is_ended_removes_its_sandbox,
    run_renews_a_sandbox_without_a_lifetime,
    run_keeps_a_sandbox_whose_terminal_is_left,
    run_passes_input_on,
    a_create_is_repeated_by_its_key,
    ids_are_for_other_programs,
    logs_of_a_sandbox,
    errors_tell_what_to_do,
    errors_are_json_where_that_was_asked_for,
    kill_goes_on_after_an_error,
    one_request_commands,
    colours_are_for_terminals,
    completions_are_read_by_bash,
]
INSIDE_TESTS = [
    input_is_passed_on_as_it_comes,
    input_may_be_large_or_left_unread,
    statuses_are_those_of_shells,
    output_is_exact,
    logs_follow,
    copies_both_ways,
    code_runs,
    top_shows_sandboxes,
    forks,
    goes_back_to_a_snapshot,
    forwards_a_port,
    metadata_and_health,
    metrics_are_watched,
    shell_is_a_terminal,
    detaches_and_comes_back,
    exec_with_a_terminal,
    terminals_have_the_variables_that_were_given,
]


def main():
    program, *programs = sys.argv[1:]
    skip_all(why_not())
    tap = Tap()
    with ServerProcess(*programs) as server, tempfile.TemporaryDirectory(prefix="osb-") as home:
        osb = Osb(program, server, home)
        for test in LIFE_TESTS:
            tap.check(test.__name__, test, osb)
        box = osb.json("sandbox", "create", "--image", "host")["id"]
        for test in INSIDE_TESTS:
            tap.check(test.__name__, test, osb, box)
        osb.ok("sandbox", "kill", *osb.ids())
        tap.check("forwards_a_port_by_https", forwards_a_port_by_https, osb, programs)
    return tap.end()


sys.exit(main())
