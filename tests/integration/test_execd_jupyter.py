"""execd's Jupyter kernels: the real ipykernel and bash_kernel, spoken to without a Jupyter server.

Usage: test_execd_jupyter.py EXECD, by a Python that has both kernels. TAP on standard output.
"""
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Stream  # noqa: E402
from execd_process import children, status_of, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ELF = pathlib.Path(PROGRAM).read_bytes()
SANITIZED, STATIC = b"__asan_init" in ELF, b"ld-linux" not in ELF
LARGE_BYTES, TOO_LARGE_BYTES = 10_000_000, 40_000_000
RSS_KIB_MAX = 2048
# Times for a cell: the first ones may be over before it does anything, or has ended in its second.
LIMITS = ((500, "500ms"), (5000, "5s"), (20000, "20s"))
EXECD = PYTHON = None  # the one most tests share, and its python context

SPECS = {
    "bash": {"argv": [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"],
             "language": "bash", "env": {"PS1": "$"}},
    "over-tcp": {"argv": [sys.executable, "-c", "from ipykernel import kernelapp; "
                          "kernelapp.launch_new_instance()", "-f", "{connection_file}"],
                 "language": "python", "env": {"SAID": "by $HOME"}},
    "by-message": {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                   "language": "python", "interrupt_mode": "message"},
    "deaf": {"argv": [sys.executable, "-c", "import time; time.sleep(99)", "{connection_file}"],
             "language": "deaf"},
    "broken": {"argv": [sys.executable, "-c", "raise SystemExit('no such luck')"],
               "language": "broken"},
    "no-zmtp": {"argv": [sys.executable, "-c", "import json, socket, sys, time\n"
                         "c = json.load(open(sys.argv[1]))\n"
                         "s = socket.create_server((c['ip'], c['shell_port']))\n"
                         "s.accept()[0].sendall(b'HTTP/1.1 400 Bad Request'); time.sleep(99)",
                         "{connection_file}"],
                "language": "no-zmtp"},
    "absent": {"argv": ["no-such-program"], "language": "absent"},
}


class Cell:
    """What the stream of a cell said."""

    def __init__(self, events):
        self.events = events
        assert events[0]["type"] == "init", events[:1]
        assert events[-1]["type"] in ("execution_complete", "error"), events[-3:]

    def text(self, kind="stdout"):
        return "".join(e["text"] for e in self.events if e["type"] == kind)

    def results(self):
        return [e["results"] for e in self.events if e["type"] == "result"]

    def result(self):
        return self.results()[-1]["text"] if self.results() else None

    def displays(self):
        """(text, id, whether it is an update) of each"""
        return [(e["results"]["text"], e["display"]["id"], e["display"]["update"])
                for e in self.events if e["type"] == "result" and "display" in e]

    def error(self):
        """(name, value), or None"""
        found = [e["error"] for e in self.events if e["type"] == "error"]
        assert len(found) <= 1, found
        return (found[0]["ename"], found[0]["evalue"]) if found else None

    def died(self):
        return self.events[-1]["type"] == "error" and self.error()[0] == "KernelDied"


class Context:
    """with Context("python", "jupyter") as context: one of its own."""

    def __init__(self, language, kernel, execd=None, **more):
        self.execd = execd or EXECD
        reply = self.execd.ask("POST", "/code/context",
                               {"language": language, "kernel": kernel, **more})
        assert reply.status == 200, reply
        self.facts = reply.json()
        self.id = self.facts["id"]

    def stream(self, code, **more):
        return Stream(self.execd.connect(), "/code",
                      {"code": code, "context": {"id": self.id}, **more})

    def run(self, code, **more):
        with self.stream(code, **more) as stream:
            assert stream.status == 200, stream.status
            return Cell(list(stream.events()))

    def interrupt(self):
        assert self.execd.ask("DELETE", f"/code?id={self.id}").status == 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.execd.ask("DELETE", f"/code/contexts/{self.id}").status == 200


def refused(language, kernel):
    reply = EXECD.ask("POST", "/code/context", {"language": language, "kernel": kernel})
    assert reply.status >= 400, reply
    return reply.json()["message"]


@contextlib.contextmanager
def running(context, code, until="here"):
    """A cell that printed `until`; yields the list of what it says, complete afterwards."""
    events = []
    with context.stream(code) as stream:
        while not (events and until in events[-1].get("text", "")):
            events.append(stream.event())
        yield events
        events += list(stream.events())


# --- cells ---


def keeps_state_between_cells():
    PYTHON.run("x = 20")
    assert PYTHON.run("x + 22").result() == "42"
    assert PYTHON.facts["kernel"] == "jupyter:python3", PYTHON.facts


def streams_what_is_printed_as_it_is_printed():
    """The cell goes on when its last line was seen."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/seen")
        with PYTHON.stream("import sys\nfor i in range(3):\n print(i, flush=True)\n "
                           f"open('{folder}/seen').read()\n"
                           "print('oops', file=sys.stderr)") as stream:
            events = []
            for event in stream.events():
                events.append(event)
                if event["type"] == "stdout":
                    pathlib.Path(folder, "seen").write_text("seen")
    cell = Cell(events)
    assert cell.text() == "0\n1\n2\n" and cell.text("stderr") == "oops\n", events


def passes_rich_results_on():
    got = PYTHON.run("from IPython.display import *\n"
                     "class R:\n def _repr_html_(self): return '<b>r</b>'\n"
                     " def __repr__(self): return 'R'\nR()").results()[-1]
    assert got["text/html"] == "<b>r</b>" and got["text"] == "R", got
    got = PYTHON.run("JSON({'a': [1, None]})").results()[-1]
    assert json.loads(got["application/json"]) == {"a": [1, None]}, got


def passes_displays_and_their_updates_on():
    cell = PYTHON.run("h = display('one', display_id='d1')\nh.update('two')\ndisplay('three')")
    assert cell.displays() == [("'one'", "d1", False), ("'two'", "d1", True),
                               ("'three'", "", False)], cell.events
    assert PYTHON.run("h.update('later')").displays() == [("'later'", "d1", True)]


def tells_errors():
    cell = PYTHON.run("print('before')\n1/0")
    assert cell.error() == ("ZeroDivisionError", "division by zero"), cell.events
    assert cell.text() == "before\n"
    error = next(e["error"] for e in cell.events if e["type"] == "error")
    assert any("1/0" in line or "ZeroDivisionError" in line for line in error["traceback"]), error
    assert PYTHON.run("syntax error").error()[0] == "SyntaxError"
    assert PYTHON.run("'still here'").result() == "'still here'"


def refuses_input():
    name, value = PYTHON.run("input('name?')").error()
    assert name == "StdinNotImplementedError" and "input" in value, (name, value)


def refuses_input_that_is_asked_for_all_the_same():
    cell = PYTHON.run("k = get_ipython().kernel\n"
                      "k._input_request('?', k._parent_ident['shell'], k.get_parent('shell'))")
    assert "input is not possible" in cell.text("stderr"), cell.events
    assert cell.error()[0] == "KeyboardInterrupt", cell.events


# --- what is too much, and what is none of ours ---


def passes_large_output_on():
    cell = PYTHON.run(f"print('x' * {LARGE_BYTES})")
    assert cell.text() == "x" * LARGE_BYTES + "\n" and not cell.error(), len(cell.text())


def keeps_characters_whole_in_large_output():
    cell = PYTHON.run("print('a' + '\u20ac' * 100_000)")
    assert cell.text() == "a" + "\u20ac" * 100_000 + "\n"


def says_when_output_is_too_large_and_goes_on():
    cell = PYTHON.run(f"print('x' * {TOO_LARGE_BYTES})")
    assert cell.error()[0] == "OutputLost" and "32 MiB" in cell.error()[1], cell.error()
    assert PYTHON.run("1").result() == "1"


def holds_output_back_for_a_slow_client():
    with PYTHON.stream(f"print('y' * {LARGE_BYTES})") as stream:
        time.sleep(1)
        cell = Cell(list(stream.events()))
    assert len(cell.text()) == LARGE_BYTES + 1 and not cell.error()


def ignores_what_has_a_wrong_signature():
    cell = PYTHON.run(
        "from jupyter_client.session import Session\nk = get_ipython().kernel\n"
        "forger = Session(key=b'wrong')\n"
        "forger.send(k.iopub_socket, 'stream', {'name': 'stdout', 'text': 'forged'},"
        " parent=k.get_parent())\n"
        "forger.send(k.iopub_socket, 'status', {'execution_state': 'idle'},"
        " parent=k.get_parent())\n"
        "import time; time.sleep(.2); print('true')")
    assert cell.text() == "true\n" and not cell.error(), cell.events


def ignores_what_answers_another_cell():
    cell = PYTHON.run(
        "other = {'header': {'msg_id': 'other', 'msg_type': 'execute_request'}}\n"
        "send = k.session.send\n"
        "send(k.iopub_socket, 'stream', {'name': 'stdout', 'text': 'stray'}, parent=other)\n"
        "send(k.iopub_socket, 'status', {'execution_state': 'idle'}, parent=other)\n"
        "time.sleep(.2); print('own')")
    assert cell.text() == "own\n" and not cell.error(), cell.events


# --- interrupts, timeouts, deaths ---


def interrupts_a_cell_and_keeps_the_context():
    with running(PYTHON, "y = 7\nprint('here', flush=True)\nimport time; time.sleep(60)") as events:
        PYTHON.interrupt()
    assert Cell(events).error()[0] == "KeyboardInterrupt", events
    assert PYTHON.run("y").result() == "7"


def interrupts_a_cell_that_has_just_come():
    for _ in range(5):
        with running(PYTHON, "import time; time.sleep(60)", "pong") as events:
            PYTHON.interrupt()
        assert Cell(events).error()[0] == "KeyboardInterrupt", events


def interrupts_a_cell_whose_client_left():
    PYTHON.run("kept = 8")
    for code in ("print('go', flush=True)\nimport time; time.sleep(60)",
                 "print('go', flush=True)\nwhile True: pass"):
        with PYTHON.stream(code) as stream:
            assert stream.output()["text"] == "go\n"
        cell = PYTHON.run("kept")
        assert cell.result() == "8" and not cell.text(), cell.events


def interrupts_by_message_where_the_spec_says_so():
    with Context("python", "jupyter:by-message") as context:
        with running(context, "print('here', flush=True)\nimport time; time.sleep(60)") as events:
            context.interrupt()
        assert Cell(events).error()[0] == "KeyboardInterrupt", events


def ends_a_cell_whose_time_is_up():
    for limit_ms, text in LIMITS:
        cell = PYTHON.run("import time; time.sleep(60)", timeout=limit_ms)
        if not cell.died():
            break
    assert cell.error() == ("TimeoutError", f"timeout after {text}"), cell.events
    assert PYTHON.run("1 + 1").result() == "2"


def kills_a_cell_that_does_not_heed_its_timeout():
    with Context("python", "jupyter") as context:
        context.run("import signal, time")
        for limit_ms, text in LIMITS:
            cell = context.run("while True:\n try: time.sleep(60)\n"
                               " except KeyboardInterrupt: pass", timeout=limit_ms)
            if cell.died():
                break
        assert cell.died() and f"timeout after {text}" in cell.error()[1], cell.events


def tells_a_death_at_once_behind_the_last_output():
    with Context("python", "jupyter") as context:
        context.run("1")
        with tempfile.TemporaryDirectory() as folder:
            seen = pathlib.Path(folder, "seen")
            with running(context, "import os, time\nprint('last words')\n"
                         f"while not os.path.exists('{seen}'): time.sleep(.01)\n"
                         "os._exit(3)", "words") as events:
                seen.touch()
        cell = Cell(events)
        assert cell.died() and "exit status 3" in cell.error()[1], cell.events
        assert cell.text() == "last words\n", cell.events
        cell = context.run("2")
        assert cell.result() == "2" and "new one" in cell.text("stderr"), cell.events


def tells_a_death_by_signal():
    with Context("python", "jupyter") as context:
        cell = context.run("import os; os.kill(os.getpid(), 9)")
        assert cell.died() and "killed" in cell.error()[1], cell.events


# --- kinds of kernels ---


def speaks_to_bash_kernel():
    with Context("bash", "jupyter") as context:
        assert context.facts["kernel"] == "jupyter:bash", context.facts
        context.run("x=5; cd /usr")
        assert context.run("echo $x $PWD").text().strip() == "5 /usr"
        assert context.run("false").error()[1] == "1"
        # In a process of its own: bash_kernel loses an interrupt between two commands of bash.
        with running(context, "sh -c 'echo here; exec sleep 60'") as events:
            context.interrupt()
        assert Cell(events).error()[0] == "KeyboardInterrupt", events
        assert context.run("echo $x").text().strip() == "5"


def meets_kernels_over_tcp():
    with Context("python", "jupyter:over-tcp") as context:
        cell = context.run("import json\nfrom ipykernel.connect import *\n"
                           "c = json.loads(get_connection_info())\nc['transport'], c['ip']")
        assert cell.result() == "('tcp', '127.0.0.1')", cell.events
        assert len(context.run(f"print('x' * {LARGE_BYTES})").text()) == LARGE_BYTES + 1


def gives_the_environment_of_the_spec_and_of_the_context():
    with Context("python", "jupyter:over-tcp", envs={"MINE": "m"}, cwd="/usr/share") as context:
        got = context.run("import os; print(os.environ['SAID'], os.environ['MINE'], os.getcwd(),"
                          " 'EXECD_ACCESS_TOKEN' in os.environ)").text()
        assert got == "by /root m /usr/share False\n", got


def keeps_contexts_apart():
    with contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(Context("python", "jupyter")) for _ in range(3)]
        cells = {}

        def work(number, context):
            context.run(f"mine = {number}")
            cells[number] = context.run("import time; time.sleep(.3); print(mine)").text()

        threads = [threading.Thread(target=work, args=row) for row in enumerate(contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert cells == {number: f"{number}\n" for number in range(3)}, cells


def runs_a_cell_given_while_the_kernel_starts():
    with Context("python", "jupyter") as context:
        assert context.run("6 * 7").result() == "42"


def interrupts_a_cell_that_waits_for_the_kernel():
    with Context("deaf", "jupyter") as context:
        with running(context, "1", "pong") as events:
            context.interrupt()
        assert Cell(events).error()[0] == "KeyboardInterrupt", events


# --- what does not start ---


def says_what_is_missing():
    assert "no Jupyter kernel for 'ruby'" in refused("ruby", "jupyter")
    assert "install" in refused("ruby", "jupyter")
    assert "no Jupyter kernel called 'nix'" in refused("python", "jupyter:nix")
    assert "no-such-program" in refused("absent", "jupyter")


def says_why_a_kernel_ended_before_it_answered():
    with Context("broken", "jupyter") as context:
        cell = context.run("1")
        assert cell.died(), cell.events
        why = cell.error()[1]
        assert "exit status 1" in why and "no such luck" in why, why


def gives_up_a_kernel_that_speaks_something_else():
    with Context("no-zmtp", "jupyter") as context:
        cell = context.run("1")
        assert cell.died() and "does not speak ZMTP" in cell.error()[1], cell.events


# --- what it leaves behind ---


def leaves_nothing_behind():
    with tempfile.TemporaryDirectory() as folder:
        with Context("python", "jupyter", envs={"TMPDIR": folder}) as context:
            assert context.run("1").result() == "1"
            place, = pathlib.Path(folder).glob("jupyter-*")
            assert place.stat().st_mode & 0o7777 == 0o700
            assert (place / "connection.json").stat().st_mode & 0o7777 == 0o600
            pids = [pid for pid in children(EXECD.process.pid) if folder in command_line(pid)]
            assert len(pids) == 1, pids
        wait_for(lambda: not command_line(pids[0]), "the end of the kernel")
        wait_for(lambda: not list(pathlib.Path(folder).glob("jupyter-*")), "the end of its place")


def command_line(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    return ""


def stays_small():
    wait_for(lambda: SANITIZED or not STATIC or
             int(status_of(EXECD.process.pid, "VmRSS").split()[0]) <= RSS_KIB_MAX, "little memory")


TESTS = [value for value in list(globals().values())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and not isinstance(value, type)
         and value.__name__ not in ("refused", "running", "command_line", "main")]


def main():
    global EXECD, PYTHON
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in SPECS.items():
            path = pathlib.Path(folder, "kernels", name)
            path.mkdir(parents=True)
            (path / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        with Execd(PROGRAM, env={"JUPYTER_PATH": folder, "PATH": path}) as EXECD, \
                Context("python", "jupyter") as PYTHON:
            return tap.run_tests(TESTS)


if __name__ == "__main__":
    sys.exit(main())
