"""Code contexts of execd, by the real interpreters.

Usage: test_execd_code.py EXECD. TAP on standard output.
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402
from execd_client import Execd, Stream  # noqa: E402
from execd_process import SECONDS_MAX, status_of, wait_for  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
ELF = pathlib.Path(PROGRAM).read_bytes()
SANITIZED, STATIC = b"__asan_init" in ELF, b"ld-linux" not in ELF
PATH = "/usr/local/bin:/usr/bin:/bin"  # no wrappers of version managers, which take their time
PNG = b"\x89PNG\r\n\x1a\n"
# Times for a cell: the first ones may be over before it does anything, or has ended in its second.
LIMITS = ((300, "300ms"), (3000, "3s"), (20000, "20s"))


class Cell:
    """What the stream of a cell said."""

    def __init__(self, events):
        self.events = [e for e in events if e["type"] != "ping"]
        self.id = events[0]["text"]

    def text(self, kind):
        return "".join(e["text"] for e in self.events if e["type"] == kind)

    def of(self, kind):
        return [e for e in self.events if e["type"] == kind]

    @property
    def kinds(self):
        return [e["type"] for e in self.events]

    @property
    def error(self):
        errors = self.of("error")
        return errors[0]["error"] if errors else None

    @property
    def results(self):
        return [e["results"] for e in self.of("result")]

    @property
    def value(self):
        return self.results[-1]["text"] if self.results else None


def check_order(events):
    """init first, one end: execution_complete, or an error that nothing follows."""
    kinds = [e["type"] for e in events]
    assert kinds[0] == "init" and events[0]["text"] and kinds.count("init") == 1, kinds
    assert kinds.count("execution_complete") + kinds.count("error") >= 1, kinds
    assert kinds[-1] in ("execution_complete", "error"), kinds
    assert kinds.count("execution_complete") <= 1 and kinds.count("error") <= 1, kinds
    assert kinds.count("status") == kinds.count("error"), kinds
    assert all(isinstance(e["timestamp"], int) for e in events)
    assert all(e["text"] for e in events if e["type"] in ("stdout", "stderr"))


def follow(code, execd=None, context=None, **more):
    context = {"language": "python"} if context is None else context
    execd = execd or EXECD
    return Stream(execd.connect(), "/code", {"code": code, "context": context, **more})


def run(code, **more):
    with follow(code, **more) as stream:
        assert stream.status == 200, f"{stream.status}: {stream.file.read1()}"
        events = list(stream.events())
    check_order(events)
    return Cell(events)


def refused(body, status, code, message):
    reply = EXECD.ask("POST", "/code", body)
    error = reply.json()
    assert (reply.status, error["code"]) == (status, code), (reply.status, error)
    assert message in error["message"], error


def new(language="python", execd=None, **more):
    reply = (execd or EXECD).ask("POST", "/code/context", {"language": language, **more})
    assert reply.status == 200, reply
    return {"id": reply.json()["id"]}


# --- the wire ---

def a_cell_tells_output_and_value():
    cell = run("import sys\nprint('hi')\nprint('oh', file=sys.stderr)\n2 + 2", context=new())
    assert cell.kinds[0] == "init" and cell.kinds[-3:] == [
        "execution_count", "result", "execution_complete"], cell.kinds
    assert cell.text("stdout") == "hi\n" and cell.text("stderr") == "oh\n", cell.events
    assert cell.results == [{"text": "4", "text/plain": "4"}], cell.results
    assert cell.of("execution_count")[0]["execution_count"] == 1
    assert list(cell.of("result")[0]) == ["type", "timestamp", "results"]


def a_cell_without_a_value_has_no_result():
    for code in ("x = 1", "None", "print(end='')", "5;", "def f(): return 1", "# nothing", "  "):
        assert run(code).kinds == ["init", "execution_complete"], code


def a_failing_cell_tells_status_error_and_complete():
    cell = run("def f(x):\n    return 1 / x\n\nprint('before')\nf(0)", context=new())
    assert cell.kinds == ["init", "stdout", "status", "error", "execution_complete"], cell.kinds
    assert cell.of("status")[0]["text"] == "error"
    assert (cell.error["ename"], cell.error["evalue"]) == ("ZeroDivisionError", "division by zero")
    text = "\n".join(cell.error["traceback"])
    assert '"<cell 1>", line 5' in text and "return 1 / x" in text and "driver" not in text, text


def contexts_are_made_listed_and_deleted():
    EXECD.ask("DELETE", "/code/contexts?language=python")
    assert EXECD.get("/code/contexts").json() == []
    made = EXECD.ask("POST", "/code/context", {"language": "python"}).json()
    assert list(made) == ["id", "language", "kernel", "state"], made
    assert (made["language"], made["kernel"], made["state"]) == ("python", "driver", "idle"), made
    assert len(made["id"]) == 36 and made["id"].count("-") == 4, made
    assert EXECD.get("/code/contexts").json() == [made]
    assert EXECD.get("/code/contexts?language=python").json() == [made]
    assert EXECD.get("/code/contexts?language=java").json() == []
    assert EXECD.get(f"/code/contexts/{made['id']}").json() == made
    reply = EXECD.ask("DELETE", f"/code/contexts/{made['id']}")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0"), reply
    for method in ("GET", "DELETE"):
        reply = EXECD.ask(method, f"/code/contexts/{made['id']}")
        assert reply.status == 404 and reply.json() == {
            "code": "CONTEXT_NOT_FOUND", "message": f"context {made['id']} not found"}, reply


def invalid_requests_are_refused_before_the_stream():
    refused(b"{", 400, "INVALID_REQUEST_BODY", "error parsing request")
    refused({"code": ""}, 400, "INVALID_REQUEST_BODY",
            "invalid request, validation error Key: 'RunCodeRequest.Code'")
    refused({"code": "1", "timeout": -1}, 400, "INVALID_REQUEST_BODY", "TimeoutMs")
    refused({"code": "1", "context": {"language": "cobol"}}, 500, "RUNTIME_ERROR",
            "error running codes unknown language: cobol")
    refused({"code": "1", "context": {"id": "no-such", "language": "python"}}, 500,
            "RUNTIME_ERROR", "error running codes context not found")
    refused({"code": "1", "context": {"language": "sql"}}, 501, "NOT_SUPPORTED", "not offered")
    refused({"code": "1", "context": {"language": "python", "kernel": "abacus"}}, 500,
            "RUNTIME_ERROR", "unknown kernel: abacus")
    refused({"code": "1", "context": {"language": "python", "kernel": "shell"}}, 500,
            "RUNTIME_ERROR", "error running codes the kernel shell does not run python")
    for path in ("/code/contexts?language=command", "/code/contexts?language=sql"):
        for method in ("GET", "DELETE"):
            reply = EXECD.ask(method, path)
            assert reply.status == 500 and "unsupported language" in reply.json()["message"], reply
    for path in ("/code/contexts", "/code/contexts?language="):
        reply = EXECD.ask("DELETE", path)
        assert reply.status == 400 and reply.json()["code"] == "MISSING_QUERY", reply
    reply = EXECD.ask("POST", "/code/context", {"language": "cobol"})
    assert reply.status == 500 and reply.json()["message"].startswith(
        "error creating code context. unknown language"), reply


def what_the_image_lacks_is_named_at_once():
    folder = tempfile.mkdtemp()
    with Execd(PROGRAM, env={"PATH": folder}) as execd:
        reply = execd.ask("POST", "/code/context", {"language": "python"})
        assert reply.status == 500 and "install python3" in reply.json()["message"], reply
    os.rmdir(folder)


def a_language_of_commands_runs_commands():
    for context in ({"language": "command"}, {"language": ""}, {}, None):
        reply = Stream(EXECD.connect(), "/code", {"code": "echo $((6*7))", "context": context})
        with reply as stream:
            events = list(stream.events())
        assert [e["text"] for e in events if e["type"] == "stdout"] == ["42"], events
        assert len(events[0]["text"]) == 32 and events[-1]["type"] == "execution_complete"
    with follow("echo later", context={"language": "background-command"}) as stream:
        events = list(stream.events())
    assert EXECD.wait_ended(events[0]["text"])["exit_code"] == 0


def names_count_whatever_their_case():
    """In the context of a cell, too: without its language it would be a command of a shell."""
    cell = run("1+1", context={"Language": "python", "ID": None})
    assert cell.value == "2", cell.events


def a_default_context_is_made_on_first_use_and_again_after_its_end():
    EXECD.ask("DELETE", "/code/contexts?language=python")
    first = run("kept = 1")
    assert run("kept").value == "1" and run("kept").id == first.id
    assert [c["id"] for c in EXECD.get("/code/contexts").json()] == [first.id]
    EXECD.ask("DELETE", f"/code/contexts/{first.id}")
    second = run("kept")
    assert second.id != first.id and second.error["ename"] == "NameError", second.events


def a_context_can_be_told_directory_and_environment():
    with tempfile.TemporaryDirectory() as folder:
        context = new(cwd=f"{folder}/a/$NAME", envs={"NAME": "b", "MINE": "x=1"})
        cell = run("import os; os.getcwd(), os.environ['MINE'], 'EXECD_ACCESS_TOKEN' in os.environ",
                   context=context)
        assert cell.value == repr((f"{folder}/a/b", "x=1", False)), cell.events
        pathlib.Path(folder, "a/b/here.py").write_text("found = 5")
        assert run("import here; here.found", context=context).value == "5"
        assert EXECD.get(f"/code/contexts/{context['id']}").json()["cwd"] == f"{folder}/a/b"
        assert "EXECD" not in run("import os; list(os.environ)", context=new()).value


def init_comes_before_the_process_is_ready():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "python3").write_text(f"#!/bin/sh\nPATH={PATH}\nread _ <{folder}/go\n"
                                    "exec python3 \"$@\"\n")
    (folder / "python3").chmod(0o755)
    os.mkfifo(folder / "go")
    context = new(envs={"PATH": str(folder)})
    with follow("1", context=context) as stream:
        assert stream.event()["type"] == "init"
        (folder / "go").write_text("go\n")
        events = list(stream.events())
    assert events[-1]["type"] == "execution_complete", events
    shutil.rmtree(folder)


# --- one cell at a time ---

def wait_busy(context, state="busy"):
    wait_for(lambda: EXECD.get(f"/code/contexts/{context['id']}").json()["state"] == state, state)


def a_busy_context_says_so_in_an_event():
    context = new()
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/go")
        with follow(f"open('{folder}/go').read(); 'over'", context=context) as stream:
            stream.event()
            wait_busy(context)
            cell = run("1", context=context)
            assert cell.kinds == ["init", "status", "error"], cell.kinds
            assert cell.error["evalue"] == "error running codes session is busy", cell.error
            pathlib.Path(folder, "go").write_text("go")
            assert Cell(list(stream.events())).value == "'over'"
    wait_busy(context, "idle")


def contexts_run_at_once_and_know_nothing_of_each_other():
    """Each cell waits for all of the others."""
    contexts, cells = [new() for _ in range(4)], {}

    def use(number, folder):
        run(f"x = {number}", context=contexts[number])
        cells[number] = run(f"import os, time\nopen(f'{folder}/{{x}}', 'w').close()\n"
                            f"while len(os.listdir('{folder}')) < 4: time.sleep(0.01)\nx",
                            context=contexts[number], timeout=SECONDS_MAX * 1000)
    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=use, args=(n, folder)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [cells[n].value for n in range(4)] == ["0", "1", "2", "3"]


def output_comes_as_it_is_printed():
    """The cell goes on when its last line was seen."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/seen")
        seen = []
        code = f"for i in range(3):\n    print(i)\n    open('{folder}/seen').read()"
        with follow(code) as stream:
            for event in stream.events():
                if event["type"] == "stdout":
                    seen.append(event["text"])
                    pathlib.Path(folder, "seen").write_text("seen")
    assert seen == ["0\n", "1\n", "2\n"], seen


def what_a_cell_starts_prints_into_the_cell():
    cell = run("import os, subprocess\nsubprocess.run('echo a; echo b >&2', shell=True)\n"
               "os.system('echo c'); os.write(1, b'd\\n');")
    assert cell.text("stdout") == "a\nc\nd\n" and cell.text("stderr") == "b\n", cell.events


def output_and_displays_keep_their_order():
    cell = run("for i in range(50):\n    print('p', i)\n    display(i)\n'end'", context=new())
    shown = [e.get("text") or e["results"]["text"] for e in cell.events
             if e["type"] in ("stdout", "result")]
    assert shown == [text for i in range(50) for text in (f"p {i}\n", str(i))] + ["'end'"], shown


# --- ends before the end ---

def a_cell_is_interrupted():
    context = new()
    run("x = 5", context=context)
    for path in ("/code", "/command"):
        with follow("import time\nprint('go')\ntime.sleep(60)", context=context) as stream:
            while stream.event()["type"] != "stdout":
                pass
            reply = EXECD.ask("DELETE", f"{path}?id={context['id']}")
            assert (reply.status, reply.body) == (200, b""), reply
            events = list(stream.events())
        assert [e["type"] for e in events[-3:]] == ["status", "error", "execution_complete"], events
        assert events[-2]["error"]["ename"] == "KeyboardInterrupt", events
        assert "driver" not in "".join(events[-2]["error"]["traceback"]), events
    assert run("x", context=context).value == "5"


def an_interrupt_of_nothing_does_nothing():
    context = new()
    for _ in range(5):
        assert EXECD.ask("DELETE", f"/code?id={context['id']}").status == 200
        assert run("1 + 1", context=context).value == "2"
        assert EXECD.ask("DELETE", f"/code?id={context['id']}").status == 200
    reply = EXECD.ask("DELETE", "/code?id=nobody")
    assert reply.status == 500 and "no such session" in reply.json()["message"], reply
    assert EXECD.ask("DELETE", "/code").status == 400


def an_interrupt_is_never_lost():
    """Whenever it comes, also before the cell has begun."""
    for delay in (0, 0.001, 0.005, 0.02, 0.05):
        context = new()
        with follow("import time\ntime.sleep(60)", context=context) as stream:
            stream.event()
            time.sleep(delay)
            EXECD.ask("DELETE", f"/code?id={context['id']}")
            cell = Cell(list(stream.events()))
        assert cell.error["ename"] == "KeyboardInterrupt", cell.events
        EXECD.ask("DELETE", f"/code/contexts/{context['id']}")


def a_cell_ends_when_its_time_is_up():
    for limit_ms, text in LIMITS:
        context = new()
        run("x = 1", context=context)
        begin = time.monotonic()
        cell = run("import time\nprint('go')\ntime.sleep(60)", context=context, timeout=limit_ms)
        assert time.monotonic() - begin > 0.8 * limit_ms / 1000
        if cell.text("stdout") and cell.error["ename"] != "KernelDied":
            break
    assert cell.text("stdout") == "go\n", cell.events
    assert cell.kinds[-3:] == ["status", "error", "execution_complete"], cell.kinds
    assert (cell.error["ename"], cell.error["evalue"]) == ("TimeoutError", f"timeout after {text}")
    assert run("x", context=context, timeout=600_000).value == "1"


def a_cell_that_ignores_that_is_killed():
    for limit_ms, text in LIMITS:
        cell = run("import time\nwhile True:\n    try:\n        time.sleep(60)\n"
                   "    except KeyboardInterrupt:\n        print('no')", context=new(),
                   timeout=limit_ms)
        if cell.text("stdout"):
            break
    assert cell.kinds[-1] == "error" and cell.error["ename"] == "KernelDied", cell.events
    assert f"timeout after {text}" in cell.error["evalue"] and cell.text("stdout") == "no\n"


def the_end_of_the_process_is_told_at_once():
    for code, why in (("import os; print('x'); os._exit(3)", "exit status 3"),
                      ("import os; print('x', flush=True); os.kill(os.getpid(), 9)",
                       "signal: killed"),
                      ("import ctypes; print('x', flush=True); ctypes.string_at(0)",
                       "signal: segmentation fault")):
        context = new()
        run("x = 1", context=context)
        cell = run(code, context=context)
        assert cell.kinds[-2:] == ["status", "error"], cell.kinds
        assert cell.error["ename"] == "KernelDied" and why in cell.error["evalue"], cell.error
        assert EXECD.get(f"/code/contexts/{context['id']}").json()["state"] == "dead"
        cell = run("x", context=context)
        assert cell.id == context["id"] and cell.error["ename"] == "NameError", cell.events
        assert why in cell.text("stderr") and "new one" in cell.text("stderr"), cell.events
        assert run("1", context=context).text("stderr") == ""


def a_process_that_dies_idle_is_noticed():
    context = new()
    pid = int(run("import os; os.getpid()", context=context).value)
    os.kill(pid, 9)
    wait_busy(context, "dead")
    assert run("1 + 1", context=context).value == "2"


def deleting_a_context_ends_its_cell_and_its_processes():
    context = new()
    with follow("import os, subprocess\np = subprocess.Popen(['sleep', '60'])\n"
                "print(os.getpid(), p.pid)\np.wait()", context=context) as stream:
        while (event := stream.event())["type"] != "stdout":
            pass
        pids = event["text"].split()
        assert EXECD.ask("DELETE", f"/code/contexts/{context['id']}").status == 200
        events = list(stream.events())
    assert events[-1]["error"]["evalue"] == "the context was deleted", events
    wait_for(lambda: not any(pathlib.Path("/proc", pid).exists() for pid in pids), "their end")


SPIN = "print('go')\nwhile True: pass"
DEAF = ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\n"
        "while True: pass")


def leave(code, **more):
    """Runs a cell and closes the connection after its first output."""
    with follow(code, **more) as stream:
        assert stream.output()["text"] == "go\n"


def a_client_that_leaves_interrupts_its_cell():
    with tempfile.TemporaryDirectory() as folder:
        context = new()
        run("kept = 5", context=context)
        leave(f"try:\n    print('go')\n    while True: pass\n"
              f"except KeyboardInterrupt:\n    open('{folder}/told', 'w').close()\n    raise",
              context=context)
        wait_busy(context, "idle")
        assert os.path.exists(f"{folder}/told")
        assert run("kept", context=context).value == "5"


def the_next_cell_waits_for_one_whose_client_left():
    """However soon it comes, it is not told that the context is busy."""
    context = new()
    run("kept = 0", context=context)
    for number in range(1, 20):
        leave(SPIN, context=context)
        cell = run("kept += 1\nkept", context=context)
        assert cell.error is None and cell.value == str(number), cell.events
        assert cell.text("stdout") == "", cell.events


def a_shell_whose_client_left_keeps_its_state():
    context = new("bash")
    run("kept=5", context=context)
    for cell in ("echo go; while :; do :; done", "echo go; sleep 60",
                 "trap '' INT; echo go; sleep 60; sleep 60"):
        leave(cell, context=context)
        cell = run("echo $kept", context=context)
        assert cell.error is None and cell.text("stdout") == "5\n", cell.events


def a_command_whose_client_left_goes_on():
    """Its whole output is in its log."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/go")
        with follow(f"echo one; cat {folder}/go; echo two", context={"language": "command"}) as s:
            name = s.event()["text"]
            assert s.output()["text"] == "one"
        pathlib.Path(folder, "go").write_text("go\n")
        wait_for(lambda: EXECD.get(f"/command/status/{name}").json()["running"] is False, "its end")
        log = EXECD.get(f"/command/{name}/logs")
        assert log.status == 200 and log.body == b"one\ngo\ntwo\n", log


def a_default_context_is_free_again_when_its_client_left():
    with Execd(PROGRAM, env={"PATH": PATH}) as execd:
        leave("kept = 7\n" + SPIN, execd=execd)
        assert run("kept", execd=execd).value == "7"


def one_cell_may_wait_and_others_are_told_that_the_context_is_busy():
    context = new()
    leave(DEAF, context=context)
    with follow("'second'", context=context) as waiting:
        assert waiting.event()["type"] == "init"
        cell = run("'third'", context=context)
        assert cell.error["evalue"] == "error running codes session is busy", cell.events
        assert EXECD.ask("DELETE", f"/code?id={context['id']}").status == 200
        cell = Cell(list(waiting.events()))
        assert cell.error["ename"] == "KeyboardInterrupt", cell.events
        assert "before" in cell.error["evalue"] and not cell.value, cell.events
    with follow("open('/nowhere', 'w')", context=context) as waiting:
        waiting.event()
    with follow("'fourth'", context=context) as waiting:  # the one before left, too
        assert waiting.event()["type"] == "init"
        assert EXECD.ask("DELETE", f"/code/contexts/{context['id']}").status == 200
        assert Cell(list(waiting.events())).error["evalue"] == "the context was deleted"


def a_cell_that_does_not_end_when_its_client_left_is_killed():
    context = new()
    leave(DEAF, context=context)
    cell = run("1 + 1", context=context)
    assert cell.value == "2" and cell.error is None, cell.events
    assert "the client left" in cell.text("stderr"), cell.events
    assert "new one" in cell.text("stderr"), cell.events


def a_client_that_leaves_before_its_cell_begins_interrupts_it():
    with tempfile.TemporaryDirectory() as folder:
        context = new()
        with follow(f"while True: open('{folder}/x', 'a').write('x')", context=context) as stream:
            stream.event()
        assert run("3", context=context).value == "3"


def a_client_that_only_closes_its_side_keeps_its_cell():
    """Until that is known, another cell waits."""
    context = new()
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/go")
        with follow(f"print('go')\nopen('{folder}/go').read(); 'over'", context=context) as stream:
            assert stream.output()["text"] == "go\n"
            stream.client.shutdown(socket.SHUT_WR)
            while stream.event()["type"] != "ping":  # sent to find out whether anyone reads
                pass
            with follow("'next'", context=context) as waiting:
                waiting.event()
                pathlib.Path(folder, "go").write_text("go")
                for end, value in ((stream, "'over'"), (waiting, "'next'")):
                    results = [e["results"]["text"] for e in end.events() if e["type"] == "result"]
                    assert results == [value], results


def a_client_that_stops_reading_stops_the_cell():
    with Execd(PROGRAM, env={"PATH": PATH}) as execd:
        before = int(status_of(execd.process.pid, "VmRSS").split()[0])
        with follow("for i in range(300000):\n    print('x' * 99)", execd=execd) as stream:
            stream.event()
            time.sleep(1)
            grown = int(status_of(execd.process.pid, "VmRSS").split()[0]) - before
            assert grown < (20000 if SANITIZED else 1500), f"{grown} KiB more"
            text = "".join(e["text"] for e in stream.events() if e["type"] == "stdout")
        assert len(text) == 300000 * 100 and set(text.split("\n")) == {"x" * 99, ""}


# --- Python ---

def values_have_their_richest_form():
    cell = run("class Rich:\n"
               "    def __repr__(self): return 'plain'\n"
               "    def _repr_html_(self): return '<b>\u20ac</b>'\n"
               "    def _repr_png_(self): return b'\\x89PNG'\n"
               "    def _repr_json_(self): return {'a': [1, None]}\n"
               "    def _repr_svg_(self): return None\n"
               "    def _repr_latex_(self): raise NotImplementedError\n"
               "Rich()", context=new())
    assert cell.results == [{
        "text": "plain", "text/plain": "plain", "text/html": "<b>\u20ac</b>",
        "image/png": base64.b64encode(b"\x89PNG").decode(),
        "application/json": '{"a":[1,null]}'}], cell.results
    bundle = run("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                 "        return {'text/plain': 'p', 'application/x': 'y'}, {}\nB()").results[0]
    assert bundle == {"text": "p", "text/plain": "p", "application/x": "y"}, bundle
    assert run("B").results[0]["text"].startswith("<class"), "a class is no instance"


def display_is_a_result_that_can_be_told_apart():
    cell = run("h = display('a', display_id='one')\nh.update('b')\ndisplay(3, 4)\n5", context=new())
    assert [e["results"]["text"] for e in cell.of("result")] == ["'a'", "'b'", "3", "4", "5"]
    assert [e.get("display") for e in cell.of("result")] == [
        {"id": "one", "update": False}, {"id": "one", "update": True},
        {"id": "", "update": False}, {"id": "", "update": False}, None], cell.events
    assert list(cell.of("result")[0]) == ["type", "timestamp", "results", "display"]


def figures_are_shown_as_png():
    context = new()
    if run("import matplotlib", context=context).error:
        raise tap.Skip("there is no matplotlib for /usr/bin/python3")
    cell = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nNone",
               context=context)
    images = [base64.b64decode(bundle["image/png"]) for bundle in cell.results]
    assert len(images) == 2 and all(image.startswith(PNG) for image in images), cell.kinds
    cell = run("fig = plt.figure(); fig", context=context)
    assert cell.kinds.count("result") == 1 and "image/png" in cell.results[0], cell.kinds
    cell = run("plt.plot([3]); plt.show(); print('after')", context=context)
    assert cell.kinds[1:3] == ["result", "stdout"] and not cell.text("stderr"), cell.events
    assert run("1", context=context).kinds.count("result") == 1


def a_result_too_large_for_an_event_is_shortened():
    for count in (1500000, 3000000, 30000000):
        cell = run(f"'\u20ac' * {count}")
        assert len(cell.value) < 70000 and "cut)" in cell.value, (len(cell.value), cell.value[-50:])
    cell = run("'x' * 1900000")
    assert len(cell.value) == 1900002 and "shortened" not in cell.of("result")[0]
    assert run("'x' * 3000000").of("result")[0]["shortened"] is True
    cell = run("raise ValueError('x' * 9000000)")
    assert len(json.dumps(cell.error)) < 300000 and cell.error["ename"] == "ValueError"


def errors_of_all_kinds_are_reported():
    for code, name in (("1 +", "SyntaxError"), ("raise SystemExit(3)", "SystemExit"),
                       ("exit()", "SystemExit"), ("import nothing_like_it", "ModuleNotFoundError"),
                       ("def f(): f()\nf()", "RecursionError"),
                       ("input('?')", "StdinNotImplementedError"),
                       ("raise KeyboardInterrupt", "KeyboardInterrupt"), ("%foo", "SyntaxError"),
                       ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "E"),
                       ("class R:\n    def __repr__(self): 1 / 0\nR()", "ZeroDivisionError"),
                       ("await 5", "TypeError"), ("x = '\\ud800'; x", None),
                       ("raise ValueError('a\\nb\\x00')", "ValueError")):
        cell = run(code)
        assert (cell.error and cell.error["ename"]) == name, (code, cell.events)
        assert run("'alive'").value == "'alive'"


def errors_show_what_led_to_them_and_nothing_of_ours():
    cell = run("try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('b') from e")
    text = "\n".join(cell.error["traceback"])
    assert "ZeroDivisionError" in text and "direct cause" in text and "ValueError: b" in text, text
    assert "driver" not in text, text


def source_is_known_to_other_modules():
    context = new()
    run("def twice(x):\n    return 2 * x", context=context)
    cell = run("import inspect; print(inspect.getsource(twice))", context=context)
    assert "return 2 * x" in cell.text("stdout"), cell.events
    cell = run("import traceback\ntry:\n    twice(None)\nexcept TypeError:\n"
               "    traceback.print_exc()", context=context)
    assert "return 2 * x" in cell.text("stderr"), cell.events


def cells_may_await():
    context = new()
    cell = run("import asyncio\nasync def f(x):\n    await asyncio.sleep(0.01)\n    return x\n"
               "await f(4)", context=context)
    assert cell.value == "4", cell.events
    cell = run("task = asyncio.get_event_loop().create_task(f(6))\n"
               "await asyncio.gather(f(1), task)", context=context)
    assert cell.value == "[1, 6]", cell.events
    assert run("async with asyncio.Lock(): print('in')", context=context).text("stdout") == "in\n"


def notebook_lines_work():
    cell = run("import os\nif True:\n    !echo $((1+1)); echo e >&2\n%cd /\n%matplotlib inline\n"
               "os.getcwd()", context=new())
    assert (cell.text("stdout"), cell.value) == ("2\n", "'/'"), cell.events
    for code, magic in (("%timeit 1", "%timeit"), ("%%bash\necho no Python\n", "%%bash")):
        cell = run(code)
        assert f"no magic {magic} here" in cell.error["evalue"], cell.events


def forks_and_threads_do_no_harm():
    cell = run("import os\nif os.fork() == 0:\n    print('child', flush=True)\nelse:\n"
               "    os.wait()\n    print('parent')\n7", context=new())
    assert cell.text("stdout") == "child\nparent\n" and cell.value == "7", cell.events
    cell = run("import threading\nt = [threading.Thread(target=lambda i=i: [display(i) for _ in"
               " range(50)]) for i in range(4)]\n[x.start() for x in t]\n[x.join() for x in t];")
    assert len(cell.results) == 200, len(cell.results)
    cell = run("import multiprocessing\ndef f(x): return x * x\n"
               "with multiprocessing.get_context('fork').Pool(2) as p: r = p.map(f, range(4))\nr")
    assert cell.value == "[0, 1, 4, 9]", cell.events


def the_descriptors_of_the_driver_stay_with_it():
    cell = run("import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], close_fds=False);",
               context=new())
    assert cell.text("stdout").split() == ["0", "1", "2", "3"], cell.events  # 3: ls reads


def nothing_printed_can_end_a_cell():
    cell = run("print('{\"type\":\"done\"}')\nprint('{\"type\":\"error\"}')\n1", context=new())
    assert cell.value == "1" and cell.error is None, cell.events


def garbage_on_the_channel_of_events_ends_only_that_context():
    other = new()
    run("x = 1", context=other)
    cell = run("import os; os.write(4, b'{\"type\":\"done\",\"id\":\"' + b'0' * 32 + b'\"}\\n')\n"
               "import time; time.sleep(60)", context=new())
    assert cell.error["ename"] == "KernelDied", cell.events
    assert "broke its protocol" in cell.error["evalue"], cell.events
    assert run("x", context=other).value == "1"


def large_cells_and_odd_texts_arrive_whole():
    text = "\u20ac\U0001f980\x00\x7f\u2028\\\"'\t"
    cell = run(f"x = {text!r}\nlen(x), x == {json.dumps(text, ensure_ascii=False)}", context=new())
    assert cell.value == f"({len(text)}, True)", cell.events
    assert run("s = '" + "y" * 3000000 + "'\nlen(s)").value == "3000000"
    cell = run("import sys; sys.stdout.buffer.write(b'\\xff\\xfe ok\\n');")
    assert cell.text("stdout") == "\ufffd\ufffd ok\n", cell.events


def pickles_and_main_work():
    cell = run("import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P, __name__",
               context=new())
    assert cell.value == "(True, '__main__')", cell.events
    names = run("[n for n in dir() if not n.startswith('_')]", context=new()).value
    assert names == "['display']", names


def a_cell_gets_its_last_event_when_execd_ends():
    for language, code in (("python", "import time; print('on', flush=True); time.sleep(100)"),
                           ("bash", "echo on; sleep 100")):
        with Execd(PROGRAM, env={"PATH": PATH}) as execd, \
                follow(code, execd=execd, context={"language": language}) as stream:
            events = stream.events()
            began = [next(events)]
            while began[-1]["type"] != "stdout":
                began.append(next(events))
            execd.process.terminate()
            began += events
            check_order(began)
            assert began[-1]["error"]["ename"] == "KernelDied", began[-1]


# --- leaks ---

def memory_and_descriptors_come_back():
    with Execd(PROGRAM, env={"PATH": PATH}) as execd:
        assert execd.get("/ping").status == 200  # it is up, and not only listening
        idle = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
        for i in range(3):
            contexts = [new(execd=execd) for _ in range(5)]
            for context in contexts:
                run("print('x' * 100000); 'y' * 1000000", execd=execd, context=context)
                if i == 1:
                    run("import os; os._exit(1)", execd=execd, context=context)
            execd.ask("DELETE", "/code/contexts?language=python")
            wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= idle,
                     "descriptors to be closed")
        if STATIC and not SANITIZED:
            wait_for(lambda: int(status_of(execd.process.pid, "VmRSS").split()[0]) <= 2048,
                     "little memory")


TESTS = [value for value in list(globals().values())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and value.__name__ not in ("Cell", "check_order", "follow", "run", "refused", "new",
                                    "wait_busy", "leave")]


if __name__ == "__main__":
    with Execd(PROGRAM, "--access-token", "", env={"PATH": PATH}) as EXECD:
        sys.exit(tap.run_tests(TESTS))
