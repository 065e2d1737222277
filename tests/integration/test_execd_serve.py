"""execd as a daemon on a port, and as what starts a foreign image: flags, log, stop, bootstrap.

Usage: test_execd_serve.py EXECD-PROGRAM BOOTSTRAP.SH. TAP on standard output.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_process import SECONDS_MAX, free_port, wait_for  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
BOOTSTRAP = str(pathlib.Path(sys.argv[2]).resolve())


class Daemon:
    """with Daemon("-x", ...) as daemon: listening on a free port, in a folder of its own."""

    def __init__(self, *args, env=None, argv=None, wait=True, **more):
        self.port, self.wait = free_port(), wait
        self.folder = tempfile.TemporaryDirectory()
        argv = argv or [PROGRAM, f"-port={self.port}", *args]
        self.process = subprocess.Popen(
            [arg.format(port=self.port) for arg in argv], cwd=self.folder.name,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], "HOME": self.folder.name,
                 "EXECD_ENVS": f"{self.folder.name}/sub/.env", **(env or {})}, **more)

    def __enter__(self):
        if self.wait:
            wait_for(lambda: self.process.poll() is not None or self.answers(), "execd")
        return self

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def ask(self, method, path, body=None, headers=None, host="127.0.0.1"):
        client = http.client.HTTPConnection(host, self.port, timeout=SECONDS_MAX)
        client.request(method, path, json.dumps(body) if body else None, headers or {})
        reply = client.getresponse()
        return reply.status, reply.read()

    def run(self, command):
        status, body = self.ask("POST", "/command", {"command": command})
        assert status == 200, body
        return [json.loads(line) for line in body.decode().split("\n\n") if line]

    def output(self, command):
        return "\n".join(e["text"] for e in self.run(command) if e["type"] == "stdout")

    def read_until(self, wanted):
        """Reads what it, or its entrypoint, prints."""
        for line in self.process.stdout:
            if line == wanted:
                return
        raise AssertionError(f"{wanted!r} was not printed")

    def end(self, signo=signal.SIGTERM):
        self.process.send_signal(signo)
        out, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, out, err

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.end()
        self.folder.cleanup()


# --- the daemon ---


def split_banner(out):
    """What a daemon printed: its banner between rules, and then lines of JSON."""
    banner, rest = re.fullmatch(r"((?:=+\n(?: .*\n)+)+=+\n)(.*)", out, re.DOTALL).groups()
    return banner, [json.loads(line) for line in rest.splitlines()]


def serves_on_every_address():
    with Daemon() as daemon:
        assert daemon.ask("GET", "/ping") == (200, b"")
        assert daemon.output("echo hi") == "hi"
        if pathlib.Path("/proc/net/if_inet6").read_text():
            assert daemon.ask("GET", "/ping", host="::1") == (200, b"")
        status, out, _ = daemon.end()
        assert status == 0, status
        banner, lines = split_banner(out)
        assert {"OpenSandbox Execd", "Version:", "Git Commit:", "Platform:"} <= set(
            re.findall(r"OpenSandbox Execd|[A-Z][A-Za-z ]*:", banner)), banner
        assert lines[0]["msg"] == "listening", out


def has_no_head():
    with Daemon("--access-token=abc") as daemon:
        known = {"X-EXECD-ACCESS-TOKEN": "abc"}
        for path in ("/ping", "/ping/", "/metrics/watch", "/files/download?path=/etc/passwd"):
            assert daemon.ask("HEAD", path, headers=known) == (404, b""), path
        assert daemon.ask("HEAD", "/ping")[0] == 401


def reads_percent_codes_in_paths():
    with Daemon() as daemon:
        assert daemon.ask("GET", "/%70ing") == (200, b"")
        status, body = daemon.ask("POST", "/%63ommand", {"command": "echo hi"})
        assert status == 200 and b'"text":"hi"' in body, body
        for path in ("/%50ing", "/ping%2F", "/%2570ing"):
            assert daemon.ask("GET", path) == (404, b"404 page not found"), path


def a_daemon_ignores_words_and_refuses_unknown_options():
    with Daemon("tail", "-f", "/dev/null") as daemon:
        assert daemon.ask("GET", "/ping")[0] == 200
    with Daemon("-c", "1", wait=False) as daemon:
        _, err = daemon.process.communicate(timeout=SECONDS_MAX)
        assert daemon.process.returncode == 2 and "unknown option '-c'" in err, err
        assert "\nusage: execd " in err, err


def requires_its_token_and_hides_it_from_commands():
    for args, env in ((("--access-token=s3cret",), {}), ((), {"EXECD_ACCESS_TOKEN": "s3cret"})):
        with Daemon(*args, env=env) as daemon:
            assert daemon.ask("GET", "/ping")[0] == 401
            known = {"X-EXECD-ACCESS-TOKEN": "s3cret"}
            assert daemon.ask("GET", "/ping", headers=known)[0] == 200
            line = "env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'"
            body = daemon.ask("POST", "/command", {"command": line}, known)[1]
            assert b"execd" in body and b"s3cret" not in body, body


def says_what_is_wrong_with_its_flags():
    for args, env, words in (
            (("--jupyter-host", "x"), {}, "http://"),
            ((), {"EXECD_API_GRACE_SHUTDOWN": "soon"}, "expected a time"),
            ((), {"EXECD_CLONE3_COMPAT": "maybe"}, "EXECD_CLONE3_COMPAT"),
            ((), {"EXECD_LOG_FILE": "/no/such/dir/log"}, "no such file")):
        with Daemon(*args, env=env, wait=False) as daemon:
            _, err = daemon.process.communicate(timeout=SECONDS_MAX)
            assert daemon.process.returncode in (1, 2) and words in err.lower().replace(
                "execd_clone3_compat", "EXECD_CLONE3_COMPAT"), (args, err)


def takes_what_others_take():
    with Daemon("--jupyter-host", "http://127.0.0.1:1", "--jupyter-token", "t",
                "--jupyter-idle-poll-interval", "0s", "--graceful-shutdown-timeout=1.5s") as daemon:
        assert daemon.ask("GET", "/ping")[0] == 200
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        argv = [PROGRAM, "--port", str(taken.getsockname()[1])]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS_MAX,
                              check=False)
        assert done.returncode == 1 and "in use" in done.stdout + done.stderr, done


def makes_clone3_unknown():
    probe = ("python3 -c \"import ctypes,os; l=ctypes.CDLL(None,use_errno=True); "
             "print(l.syscall(435,0,0), ctypes.get_errno())\"")
    for value, marker in (("1", False), ("reexec", True)):
        with Daemon(env={"EXECD_CLONE3_COMPAT": value}) as daemon:
            assert daemon.output(probe) == "-1 38", value
            assert bool(daemon.output("echo $_EXECD_CLONE3_COMPAT_APPLIED").strip()) == marker
    with Daemon(env={"EXECD_CLONE3_COMPAT": "off"}) as daemon:
        assert daemon.output(probe) == "-1 22"


def logs_what_clients_do():
    with Daemon("--log-level=7", env={"EXECD_LOG_FILE": "log.txt"}) as daemon:
        daemon.run("echo said; API_TOKEN=sesame1 true --password sesame2")
        session = json.loads(daemon.ask("POST", "/session")[1])["session_id"]
        daemon.ask("POST", f"/session/{session}/run",
                   {"command": "X_SECRET='sesame 3'; echo sa''id"})
        daemon.ask("GET", "/files/info?path=/very/x&access_token=sesame4")
        daemon.ask("GET", "/proxy/1/a?code=sesame5")
        daemon.ask("GET", "/pr%6fxy/1/b?sig=sesame6")
        status, out, err = daemon.end()
        assert (status, err) == (0, ""), (status, err)
        assert split_banner(out)[1] == [], out
        text = (pathlib.Path(daemon.folder.name) / "log.txt").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:3] == ["level", "ts", "msg"], line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]), line
    assert [line["command"] for line in lines if line["msg"] == "command"] == [
        "echo said; API_TOKEN=**** true --password ****", "X_SECRET=**** echo sa''id"], text
    assert [line["msg"] for line in lines if line["msg"].startswith("Requested: GET")] == [
        "Requested: GET - /files/info?path=/very/x&access_token=****",
        "Requested: GET - /proxy/1/a",
        "Requested: GET - /pr%6fxy/1/b"], text
    assert "sesame" not in text and '"said"' not in text


def logs_to_all_that_are_listed():
    with Daemon(env={"OPENSANDBOX_LOG_OUTPUT": "a.log, stderr,b.log"}) as daemon:
        daemon.run("true # private")
        daemon.ask("GET", "/ping")
        status, out, err = daemon.end()
        folder = pathlib.Path(daemon.folder.name)
        assert status == 0 and split_banner(out)[1] == [], out
        assert "Requested: GET - /ping" in err and "private" not in err, err
        assert err == (folder / "a.log").read_text() == (folder / "b.log").read_text()


def logs_some_of_what_repeats():
    with Daemon(env={"EXECD_LOG_FILE": "log.txt"}) as daemon:
        client = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=SECONDS_MAX)
        begin = time.monotonic()
        for _ in range(2000):
            client.request("GET", "/ping")
            client.getresponse().read()
        seconds = int(time.monotonic() - begin) + 2
        daemon.end()
        count = (pathlib.Path(daemon.folder.name) / "log.txt").read_text().count("/ping")
        assert 100 <= count <= 100 * seconds + 20, count


def goes_on_when_its_log_is_a_full_pipe():
    with Daemon() as daemon:  # whose standard output is a pipe of 64 KiB
        for i in range(800):
            assert daemon.ask("GET", f"/{i:0100}")[0] == 404


# --- the end ---


def last_of_streams():
    """What streams still say when execd ends: that of a command with a trap, of one that ignores
    the signal, and of a watch."""
    with Daemon() as daemon:
        streams = []
        for path, body in (("/command", {"command": "trap 'echo bye; exit 3' TERM; echo up; "
                                                    "while :; do sleep 0.01; done"}),
                           ("/command", {"command": "trap '' TERM; echo up; sleep 100"}),
                           ("/directories/watch?path=/tmp", None)):
            client = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=SECONDS_MAX)
            client.request("POST" if body else "GET", path, json.dumps(body) if body else None)
            streams.append(client.getresponse())
        for stream in streams[:2]:
            while b'"up"' not in stream.readline():
                pass
        daemon.process.terminate()
        ends = [[json.loads(line) for line in stream.read().decode().split("\n\n") if line.strip()]
                for stream in streams]  # read() fails on a body that is cut
        assert daemon.process.wait(SECONDS_MAX) == 0
        return ends


def ends_streams_properly():
    for _ in range(5):
        trapped, deaf, watch = last_of_streams()
        assert deaf[-1]["error"]["traceback"] == ["signal: killed"], deaf
        assert watch[-1]["error"]["ename"] == "WatchError", watch
        if trapped[-1]["error"]["evalue"] != "-1":  # its second may be over before its turn comes
            break
    assert trapped[-1]["error"]["evalue"] == "3", trapped
    assert "bye" in [event.get("text") for event in trapped], trapped


def ends_at_once_without_open_streams():
    with Daemon(f"--graceful-shutdown-timeout={2 * SECONDS_MAX}s") as daemon:
        assert daemon.ask("GET", "/ping")[0] == 200  # it has begun to mind signals
        begin = time.monotonic()
        assert daemon.end()[0] == 0
        assert time.monotonic() - begin < SECONDS_MAX


# --- bootstrap ---


def both(*argv, **more):
    """By itself, and by the script."""
    yield Daemon(argv=[PROGRAM, "--port={port}", "--bootstrap", "--", *argv], **more)
    port = free_port()
    more["env"] = {"EXECD": f"{PROGRAM} --port={port}", **more.get("env", {})}
    daemon = Daemon(argv=[BOOTSTRAP, *argv], **more)
    daemon.port = port
    yield daemon


def starts_the_entrypoint_beside_the_api():
    for started in both("sh", "-c", "echo out; echo err >&2; echo $EXECD_ENVS; exec sleep 100"):
        with started as daemon:
            assert daemon.ask("GET", "/ping")[0] == 200
            envs = pathlib.Path(daemon.folder.name) / "sub/.env"
            wait_for(envs.exists, "the file of variables")
            envs.write_text("A=from the file\n")
            assert daemon.output("echo $A") == "from the file"
            daemon.read_until(f"{envs}\n")
            status, _, err = daemon.end()
            assert status == 128 + signal.SIGTERM, status
            assert "err\n" in err, err


def ends_as_the_entrypoint_does():
    for words, wanted in ((("sh", "-c", "exit 7"), 7), (("-c", "exit", "8"), 8),
                          (("sh", "-c", "kill -9 $$"), 137), (("/no/such",), 127)):
        for started in both(*words, wait=False):
            with started as daemon:
                out, err = daemon.process.communicate(timeout=SECONDS_MAX)
                assert daemon.process.returncode == wanted, (words, out, err)


def takes_the_command_from_the_environment():
    for started in both("ignored", env={"BOOTSTRAP_CMD": "echo $0; exit 9",
                                        "BOOTSTRAP_SHELL": "/bin/sh"}, wait=False):
        with started as daemon:
            out, _ = daemon.process.communicate(timeout=SECONDS_MAX)
            assert daemon.process.returncode == 9 and "/bin/sh\n" in out, out


def stays_when_there_is_nothing_to_run():
    for started in both():
        with started as daemon:
            assert daemon.ask("GET", "/ping")[0] == 200
            assert daemon.end()[0] == 0


def sources_a_script_first():
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write("export FROM_SCRIPT='a b'\n")
        script.flush()
        env = {"EXECD_BOOTSTRAP_PRE_SCRIPT": script.name}
        for started in both("sh", "-c", "echo [$FROM_SCRIPT]; exec sleep 100", env=env):
            with started as daemon:
                assert daemon.output("echo $FROM_SCRIPT") == "a b"
                assert daemon.output("echo $_EXECD_PRE_SCRIPT_DONE").strip() == ""
                daemon.read_until("[a b]\n")
    for started in both("sh", "-c", "exit 3", wait=False,
                        env={"EXECD_BOOTSTRAP_PRE_SCRIPT": "/no/such"}):
        with started as daemon:
            _, err = daemon.process.communicate(timeout=SECONDS_MAX)
            assert daemon.process.returncode == 3 and "cannot read" in err, err


def passes_signals_on():
    for started in both("sh", "-c", "trap 'echo hup' HUP; trap 'echo usr1' USR1; "
                        "trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.01; done"):
        with started as daemon:
            daemon.read_until("up\n")
            for signo, word in ((signal.SIGHUP, "hup\n"), (signal.SIGUSR1, "usr1\n")):
                daemon.process.send_signal(signo)
                assert daemon.process.stdout.readline() == word
            status, out, _ = daemon.end()
            assert status == 5 and out == "term\n", (status, out)


def starts_children_with_default_signals():
    """A shell starts background processes with SIGINT and SIGQUIT ignored."""
    def ignore():
        for signo in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(signo, signal.SIG_IGN)

    for started in both("sh", "-c", "grep SigIgn /proc/self/status; exec sleep 100",
                        preexec_fn=ignore):
        with started as daemon:
            ignored = daemon.output("grep SigIgn /proc/self/status")
            assert int(ignored.split()[1], 16) & 0x6 == 0, ignored
            daemon.read_until("SigIgn:\t0000000000000000\n")


def reaps_orphans_as_the_first_process():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-pf", "true"], check=False).returncode:
        raise tap.Skip("cannot make a pid namespace")
    daemon = Daemon(argv=["unshare", "-pf", "--kill-child", "--mount-proc", PROGRAM,
                          "--port={port}", "--bootstrap", "--", "sleep", "100"])
    with daemon:
        assert daemon.output("cat /proc/1/comm") == "execd"
        daemon.output("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.1")
        wait_for(lambda: "Z" not in daemon.output(
            "grep -h ^State /proc/[0-9]*/status | grep Z || true"), "no zombie")
        daemon.end(signal.SIGKILL)  # unshare does not listen to less


@contextlib.contextmanager
def behind_an_egress_proxy(steps, *entry, env=None, wait=True):
    """In mounts of its own, where nothing of this machine is changed."""
    if os.geteuid() != 0:
        raise tap.Skip("only root can mount")
    steps = ["mount -t tmpfs none /opt", "mkdir /opt/opensandbox",
             "mount -t tmpfs none /usr/local/share", "mkdir /usr/local/share/ca-certificates",
             "mount -t tmpfs none /etc/ssl", "mkdir /etc/ssl/certs",
             "echo SYSTEM >/etc/ssl/certs/ca-certificates.crt", "echo updated >/opt/updated",
             *steps]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sh", "cat", "cp", "sleep"):  # and no Python, which may have its own
            os.symlink(shutil.which(name), f"{folder}/{name}")
        update = pathlib.Path(folder, "update-ca-certificates")
        update.write_text("#!/bin/sh\necho ran\n")
        update.chmod(0o755)
        steps.append(f"PATH={folder} exec \"$@\"")
        argv = ["unshare", "-m", "/bin/sh", "-ec", "\n".join(steps), "sh", PROGRAM,
                "--port={port}", "--bootstrap", "--", *entry]
        env = {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "Yes", **(env or {})}
        with Daemon(argv=argv, env=env, wait=wait) as daemon:
            yield daemon


def trusts_the_egress_proxy(last_step, bundle):
    show = ('cat "$SSL_CERT_FILE" "$REQUESTS_CA_BUNDLE" "$NODE_EXTRA_CA_CERTS" '
            "/usr/local/share/ca-certificates/*.crt; cat /opt/updated")
    steps = ["echo CA >/opt/opensandbox/mitmproxy-ca-cert.pem", last_step]
    with behind_an_egress_proxy(steps, "sh", "-c", show, wait=False) as daemon:
        out, err = daemon.process.communicate(timeout=SECONDS_MAX)
    assert f"ran\n{bundle}{bundle}CA\nCA\nupdated\n" in out, (out, err)


def merges_the_certificate_of_the_egress_proxy():
    trusts_the_egress_proxy("true", "SYSTEM\nCA\n")


def trusts_the_certificate_alone_where_none_can_be_merged():
    trusts_the_egress_proxy("mount -o remount,ro /opt", "CA\n")


def tells_of_certificates_once_they_are_there():
    """Commands are told where certificates are, once there are any; until then, what the image
    says holds."""
    say = "echo [$SSL_CERT_FILE] [$REQUESTS_CA_BUNDLE] [$NODE_EXTRA_CA_CERTS]"
    with behind_an_egress_proxy([], "sleep", "100",
                                env={"SSL_CERT_FILE": "/etc/ssl/own.pem"}) as daemon:
        assert daemon.output(say) == "[/etc/ssl/own.pem] [] []"
        daemon.output("echo CA >/opt/opensandbox/mitmproxy-ca-cert.pem")
        wait_for(lambda: "own.pem" not in daemon.output(say), "the certificate")
        merged = "/opt/opensandbox/merged-ca-certificates.pem"
        assert daemon.output(say) == (
            f"[{merged}] [{merged}] [/opt/opensandbox/mitmproxy-ca-cert.pem]")
        assert daemon.output("cat $SSL_CERT_FILE") == "SYSTEM\nCA"


TESTS = [
    serves_on_every_address, has_no_head, reads_percent_codes_in_paths,
    a_daemon_ignores_words_and_refuses_unknown_options,
    requires_its_token_and_hides_it_from_commands, says_what_is_wrong_with_its_flags,
    takes_what_others_take,
    makes_clone3_unknown, logs_what_clients_do,
    logs_to_all_that_are_listed, logs_some_of_what_repeats, goes_on_when_its_log_is_a_full_pipe,
    ends_streams_properly,
    ends_at_once_without_open_streams, starts_the_entrypoint_beside_the_api,
    ends_as_the_entrypoint_does, takes_the_command_from_the_environment,
    stays_when_there_is_nothing_to_run, sources_a_script_first, passes_signals_on,
    starts_children_with_default_signals, reaps_orphans_as_the_first_process,
    merges_the_certificate_of_the_egress_proxy,
    trusts_the_certificate_alone_where_none_can_be_merged,
    tells_of_certificates_once_they_are_there,
]


if __name__ == "__main__":
    sys.exit(tap.run_tests(TESTS))
