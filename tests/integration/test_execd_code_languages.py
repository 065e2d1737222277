#!/usr/bin/env python3
"""test_execd_code_languages.py EXECD NODE_MODULES GO_CACHE - cells of javascript, typescript, java
and go, by execd's own drivers and the languages of this host.

NODE_MODULES has the package typescript. GO_CACHE keeps what go compiled from run to run.
"""
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tools")]

from execd_client import Execd, Stream  # noqa: E402
from execd_process import wait_for  # noqa: E402
from tap import Skip, Tap  # noqa: E402

PROGRAM, NODE_MODULES, GO_CACHE = sys.argv[1:4]
NEEDS = {"javascript": "node", "typescript": "node", "java": "jshell", "go": "go"}
# The name of the error of a cell that is interrupted.
INTERRUPTED = {"javascript": "Interrupted", "typescript": "Interrupted",
               "java": "EvaluationInterruptedException", "go": "Interrupted"}


class Cell:
    """What a cell told."""

    def __init__(self, events):
        self.events = events
        self.out = "".join(e["text"] for e in events if e["type"] == "stdout")
        self.err = "".join(e["text"] for e in events if e["type"] == "stderr")
        results = [e for e in events if e["type"] == "result"]
        self.shown = [e["results"] for e in results if e.get("display")]
        self.result = next((e["results"]["text/plain"] for e in results if not e.get("display")),
                           None)
        self.bundle = next((e["results"] for e in results if not e.get("display")), None)
        errors = [e["error"] for e in events if e["type"] == "error"]
        self.error = errors[0] if errors else None

    def __repr__(self):
        return json.dumps(self.events, indent=1)


class Context:
    """A code context of its own."""

    def __init__(self, execd, language, **more):
        if not shutil.which(NEEDS[language]):
            raise Skip(f"{NEEDS[language]} is not on this host")
        reply = execd.ask("POST", "/code/context", {"language": language, **more})
        assert reply.status == 200, reply
        self.execd, self.language, self.id = execd, language, reply.json()["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.execd.ask("DELETE", f"/code/contexts/{self.id}").status == 200

    def stream(self, code, **more):
        return Stream(self.execd.connect(), "/code", {"code": code, "context": {"id": self.id},
                                                      **more})

    def run(self, code, **more):
        with self.stream(code, **more) as stream:
            assert stream.status == 200, stream.file.read1()
            return Cell(list(stream.events()))

    def value(self, code):
        """Of the last expression; nothing may go wrong."""
        cell = self.run(code)
        assert cell.error is None and not cell.err, cell
        return cell.result

    def fails(self, code, name):
        cell = self.run(code)
        assert cell.error and cell.error["ename"] == name, cell
        assert "execd" not in "".join(cell.error["traceback"]), cell
        return cell.error

    def interrupt(self):
        assert self.execd.ask("DELETE", f"/code?id={self.id}").status == 200

    def stopped(self, code, after_s=0.3):
        """The cell, interrupted a while after its first output."""
        with self.stream(code) as stream:
            events = [stream.event()]
            while events[-1]["type"] != "stdout":
                events.append(stream.event())
            time.sleep(after_s)
            self.interrupt()
            events += stream.events()
        cell = Cell(events)
        assert cell.error and cell.error["ename"] == INTERRUPTED[self.language], cell
        return cell


# --- all of them ---

# language: (print "first" and wait; spin for ever, after saying so; remember 5; it)
COMMON = {
    "javascript": ("console.log('first'); await new Promise(() => {})",
                   "console.log('spin'); while (true) {}", "let five = 5", "five"),
    "typescript": ("console.log('first'); await new Promise<void>(() => {})",
                   "console.log('spin'); while (true) {}", "let five: number = 5", "five"),
    "java": ('System.out.println("first"); Thread.sleep(60000);',
             'System.out.println("spin"); while (true) {}', "int five = 5;", "five"),
    "go": ('fmt.Println("first"); time.Sleep(time.Minute)', 'fmt.Println("spin"); for {}',
           "five := 5", "five"),
}


def output_comes_at_once_and_interrupts_spare_the_state(execd, language):
    wait, spin, remember, it = COMMON[language]
    with Context(execd, language) as context:
        assert context.value(remember) is None
        assert context.value(it) == "5"
        assert context.stopped(wait).out == "first\n"
        assert context.stopped(spin).out == "spin\n"
        assert context.value(it) == "5"


def a_client_that_leaves_interrupts_its_cell(execd, language):
    wait, spin, remember, it = COMMON[language]
    with Context(execd, language) as context:
        assert context.value(remember) is None
        for cell in (wait, spin):
            with context.stream(cell) as stream:
                assert stream.output()["text"] in ("first\n", "spin\n")
            assert context.value(it) == "5", "it waits for the end of the cell, and finds its state"


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return set(file.read().split())


def a_killed_process_is_told_and_started_anew(execd, language):
    """As the kernel kills it when memory runs out: the stream has its last event all the same."""
    before = children_of(execd.process.pid)
    with Context(execd, language) as context:
        with context.stream(COMMON[language][0]) as stream:
            assert stream.output()["text"] == "first\n"
            for pid in children_of(execd.process.pid) - before:
                os.kill(int(pid), signal.SIGKILL)
            *_, last = stream.events()
        assert last["type"] == "error" and last["error"]["ename"] == "KernelDied", last
        assert "signal: killed" in last["error"]["evalue"], last
        cell = context.run(COMMON[language][2])
        assert cell.error is None and "new one" in cell.err, cell


def a_cell_has_its_time_and_no_more(execd, language):
    for limit_ms in (3000, 10000, 30000):
        with Context(execd, language) as context:
            context.run(COMMON[language][2])
            cell = context.run(COMMON[language][1], timeout=limit_ms)
            if cell.error["ename"] == "KernelDied":
                continue  # a second was too short for it to end, on a busy machine
            assert cell.error["ename"] == "TimeoutError", cell
            assert context.value(COMMON[language][3]) == "5"
            return
    raise AssertionError(cell)


def what_it_prints_and_shows_keeps_its_order(execd, language):
    cells = {
        "javascript": 'for (let i = 0; i < 300; i++) console.log("line " + i); 7',
        "typescript": 'for (let i: number = 0; i < 300; i++) console.log("line " + i); 7',
        "java": 'for (int i = 0; i < 300; i++) System.out.println("line " + i);\n3 + 4',
        "go": 'for i := 0; i < 300; i++ { fmt.Println("line", i) }\n3 + 4',
    }
    with Context(execd, language) as context:
        cell = context.run(cells[language])
        assert cell.out == "".join(f"line {i}\n" for i in range(300)) and cell.result == "7", cell


def the_working_directory_is_that_of_the_context(execd, language):
    cells = {"javascript": "process.cwd()", "typescript": "process.cwd() as string",
             "java": 'new File("").getAbsolutePath()', "go": 'cwd, _ := os.Getwd()\ncwd'}
    folder = tempfile.mkdtemp(dir=execd.folder)
    with Context(execd, language, cwd=folder) as context:
        assert context.value(cells[language]).strip("\"'") == folder


def input_is_refused(execd, language):
    cells = {
        "javascript": "require('readline').createInterface({input: process.stdin})",
        "typescript": "process.stdin.on('data', () => {})",
        "java": "new Scanner(System.in).nextLine()",
        "go": 'var word string\n_, err := fmt.Scanln(&word)\nif err != nil { panic(err) }',
    }
    with Context(execd, language) as context:
        cell = context.run(cells[language])
        words = "EOF" if language == "go" else "no standard input"
        assert words in cell.error["evalue"], cell


def a_language_the_image_lacks_says_what_to_install(execd, language):
    hints = {"javascript": "nodejs", "typescript": "nodejs", "java": "JDK", "go": "golang-go"}
    with Execd(PROGRAM, env={"PATH": str(execd.folder)}) as bare:
        reply = bare.ask("POST", "/code/context", {"language": language})
        assert reply.status == 500 and hints[language] in reply.json()["message"], reply


# --- javascript ---

def declarations_can_be_made_again(execd):
    with Context(execd, "javascript") as js:
        assert js.value("const a = 1; let b = [1, 2]; class C { x() { return 'old' } }") is None
        assert js.value("const a = 2; class C { x() { return 'new' } }; a + b.length") == "4"
        assert js.value("new C().x()") == "'new'"
        assert js.value("const {p, ...rest} = {p: 1, q: 2}; rest") == "{ q: 2 }"


def values_look_as_node_shows_them(execd):
    cells = {"[1, {a: 'b'}]": "[ 1, { a: 'b' } ]", "{a: 1}": "{ a: 1 }", "-0": "-0",
             "10n ** 20n": "100000000000000000000n", "null": "null", "undefined": None,
             "new Map([[1, 2]])": "Map(1) { 1 => 2 }", "Symbol('s')": "Symbol(s)",
             "await Promise.resolve('x')": "'x'", "function f() {}": None}
    with Context(execd, "javascript") as js:
        for code, text in cells.items():
            assert js.value(code) == text, code


def rich_values_have_their_types(execd):
    with Context(execd, "javascript") as js:
        cell = js.run("display({'text/html': '<b>'}); ({_toHtml() { return '<i>' }})")
        assert cell.shown[0]["text/html"] == "<b>" and cell.bundle["text/html"] == "<i>", cell
        cell = js.run("Buffer.from('89504e470d0a1a0a', 'hex')")
        assert cell.bundle["image/png"] == "iVBORw0KGgo=", cell
        cell = js.run("({[Symbol.for('Jupyter.display')]: () => ({'application/json': {a: 1}})})")
        assert json.loads(cell.bundle["application/json"]) == {"a": 1}, cell


def errors_show_the_cell_and_nothing_else(execd):
    with Context(execd, "javascript") as js:
        js.run("function f() { throw new RangeError('far') }")
        error = js.fails("1\nf()", "RangeError")
        assert error["evalue"] == "far", error
        assert error["traceback"] == ["RangeError: far", "    at f (cell-1:1:22)",
                                      "    at cell-2:2:1"], error
        error = js.fails("let ok = 1\nlet no = = 2", "SyntaxError")
        assert error["traceback"][:3] == ["cell-3:2", "let no = = 2", "         ^"], error
        assert js.fails("throw 5", "Uncaught")["evalue"] == "5"


def modules_are_found_from_the_working_directory(execd):
    folder = pathlib.Path(tempfile.mkdtemp(dir=execd.folder))
    (folder / "m.mjs").write_text("export const v = 7; export default 8\n")
    (folder / "c.js").write_text("exports.c = 9\n")
    with Context(execd, "javascript", cwd=str(folder)) as js:
        assert js.value('import d, {v as w} from "./m.mjs"\nimport * as fs from "fs"') is None
        assert js.value("[d, w, typeof fs.readFileSync]") == "[ 8, 7, 'function' ]"
        assert js.value('(await import("./m.mjs")).v + require("./c").c') == "16"
        assert js.value('`${ "import(x)" }` + /import(y)/.source') == "'import(x)import(y)'"


def nothing_that_spins_or_waits_holds_out(execd):
    with Context(execd, "javascript") as js:
        js.stopped("console.log(1); await 1; while (true) {}")
        js.stopped("setTimeout(() => { console.log(1); while (true) {} });"
                   "await new Promise(() => {})")
        js.stopped("console.log(1); try { for (;;) {} } finally { for (;;) {} }")
        js.run("console.log(1); require('child_process').execSync('sleep 1')")
        # The promises above can never settle, and are collected or not.
        js.run("require('v8').setFlagsFromString('--expose-gc'); "
               "require('vm').runInNewContext('gc')()")
        assert js.value("40 + 2") == "42"


def failures_outside_of_cells_end_nothing(execd):
    with Context(execd, "javascript") as js:
        cell = js.run("setTimeout(() => { throw new Error('late') }, 1); "
                      "Promise.reject(new Error('alone'));"
                      "await new Promise(r => setTimeout(r, 200)); 1")
        assert cell.result == "1" and "Error: late" in cell.err and "alone" in cell.err, cell


def a_call_for_the_debugger_changes_nothing(execd):
    with Context(execd, "javascript") as js:
        cell = js.run("process.kill(process.pid, 'SIGUSR1'); "
                      "await new Promise(r => setTimeout(r, 200)); 1")
        assert cell.result == "1" and not cell.err, cell
        assert js.value("40 + 2") == "42"


# --- typescript ---

def types_are_removed(execd):
    with Context(execd, "typescript") as ts:
        assert ts.value("interface P { x: number }\nenum E { A, B = 5 }\nconst a: number = 1; "
                        "a + E.B") == "6"
        assert ts.value("interface P { y: string }\ntype Q = P | null\nconst a: string = 's'; a") \
            == "'s'"
        assert ts.value('import * as path from "path"') is None
        assert ts.value("path.basename('/a/b') as string") == "'b'"
        assert ts.value("class C { constructor(private x: number) {} y() { return this.x } }\n"
                        "new C(4).y()") == "4"
        ts.fails("let x: = 5", "SyntaxError")


def typescript_says_when_its_package_is_missing(_):
    version = os.popen("node -p process.versions.node").read().split(".")
    if len(version) > 1 and (int(version[0]), int(version[1])) >= (22, 13):
        raise Skip("this node needs no package")
    if not shutil.which("node"):
        raise Skip("node is not on this host")
    with Execd(PROGRAM) as execd:
        reply = execd.ask("POST", "/code/context", {"language": "typescript"})
        assert reply.status == 500 and reply.json()["code"] == "RUNTIME_ERROR", reply
        assert "npm install -g typescript" in reply.json()["message"], reply
        assert execd.get("/code/contexts").json() == [], "nothing stays"
        with execd.connect() as client:  # nor of a client that leaves
            client.sendall(b"POST /code/context HTTP/1.1\r\nHost: x\r\nContent-Length: 25\r\n\r\n"
                           b'{"language":"typescript"}')
        wait_for(lambda: execd.get("/code/contexts").json() == [], "nothing to stay")


# --- java ---

def java_keeps_what_is_declared(execd):
    with Context(execd, "java") as java:
        assert java.value("int x = 5;\nint f(int a) { return a * x; }\nf(2)") == "10"
        assert java.value("record P(int x, int y) {}\nnew P(1, 2)") == "P[x=1, y=2]"
        assert java.value("class A { int v; public String toString() { return \"A\" + v; } }\n"
                          "var a = new A();\na.v = 3;\na") == "A3"
        assert java.value("List.of(1, 2).stream().map(i -> i * 2).collect(Collectors.toList())") \
            == "[2, 4]"
        assert java.value('String s = "é漢😀"; s') == '"é漢😀"'
        cell = java.run('System.out.println("é漢😀"); display("text/html", "<b>")')
        assert cell.out == "é漢😀\n" and cell.shown[0]["text/html"] == "<b>", cell


def java_tells_what_a_compiler_or_an_exception_says(execd):
    with Context(execd, "java") as java:
        error = java.fails('int y = 1;\nString t = 5;', "CompilationException")
        assert error["traceback"][0] == "line 2: error:" and "^" in error["traceback"][-1], error
        assert java.value("y") == "1"
        java.run('int h() { throw new RuntimeException("deep", new Error("why")); }')
        error = java.fails("h()", "EvalException")
        assert error["evalue"] == "deep", error
        assert error["traceback"][0] == "java.lang.RuntimeException: deep", error
        assert "Caused by: java.lang.Error: why" in error["traceback"], error
        error = java.fails("class Own extends RuntimeException {}\nthrow new Own();",
                           "EvalException")
        assert error["evalue"] == "" and "Own" in error["traceback"][0], error
        java.fails("class Open {", "IncompleteSourceException")


def java_tells_what_a_declaration_lacks(execd):
    with Context(execd, "java") as java:
        error = java.fails("class B extends A {}", "CompilationException")
        assert "class A" in error["evalue"], error
        assert java.value("class A { int v = 3; }\nnew B().v") == "3"
        assert java.value("class D extends C {}\nclass C { int v = 4; }\nnew D().v") == "4"
        java.run("int g() { return missing(); }")
        error = java.fails("g()", "UnresolvedReferenceException")
        assert "missing()" in error["evalue"], error


def java_tells_how_its_process_ended(execd):
    with Context(execd, "java") as java:
        error = java.fails("System.exit(3);", "KernelDied")
        assert "exit status 3" in error["evalue"], error


# --- go ---

def go_keeps_declarations_and_values(execd):
    with Context(execd, "go") as go:
        assert go.value("x := 41\nfunc f(a int) int { return a * x }\nx + 1") == "42"
        assert go.value("x++\nf(2)") == "84"
        assert go.value("type L struct { v int; next *L }\nhead := &L{1, nil}\n"
                        "head.next = &L{2, head}\np := &x") is None
        assert go.value("*p = 7\nfmt.Sprint(head.next.next == head, x)") == "true 7"
        assert go.value('m := map[string]any{"a": 1, "b": []any{"x", 2.5}}\n'
                        "t := time.Unix(1000, 0).UTC()\n_, err := strconv.Atoi(\"z\")") is None
        assert go.value("fmt.Sprint(m, t.Year(), err)") == \
            'map[a:1 b:[x 2.5]] 1970 strconv.Atoi: parsing "z": invalid syntax'
        assert go.value("const B = 10\nfunc f(a int) int { return B }\nf(1)") == "10"


def go_makes_anew_what_cannot_be_kept(execd):
    with Context(execd, "go") as go:
        assert go.value("n := 3\ntwice := func(i int) int { return i * n }\n"
                        "ch := make(chan int, n)") is None
        assert go.value("twice(2)") == "6"
        assert go.value("ch <- 1; cap(ch)") == "3"


def go_runs_programs_as_they_are(execd):
    with Context(execd, "go") as go:
        cell = go.run('package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("whole") }')
        assert cell.out == "whole\n" and cell.error is None, cell
        cell = go.run('import "fmt"\nfunc main() { fmt.Println("mainly") }')
        assert cell.out == "mainly\n" and cell.error is None, cell


def go_tells_what_went_wrong(execd):
    with Context(execd, "go") as go:
        go.run("x := 1")
        error = go.fails('y := 1\ny = "s"', "CompilationError")
        assert error["evalue"].startswith("cell-2:2:5: cannot use"), error
        assert go.fails("func bad( {", "CompilationError")["evalue"].startswith("cell-3:1:"), error
        error = go.fails('func boom() { panic("deep") }\nx = 2\nboom()', "panic")
        assert error["traceback"] == ["panic: deep", "    at boom (cell-4:1)",
                                      "    at cell-4:3"], error
        assert go.value("x") == "2", "what it did before it failed counts"
        assert go.fails("x = 3; os.Exit(3)", "ExitError")["evalue"] == "exit status 3"
        assert go.value("x") == "2", "one that ended itself leaves nothing"


EACH = [
    output_comes_at_once_and_interrupts_spare_the_state,
    a_client_that_leaves_interrupts_its_cell,
    a_killed_process_is_told_and_started_anew,
    a_cell_has_its_time_and_no_more,
    what_it_prints_and_shows_keeps_its_order,
    the_working_directory_is_that_of_the_context,
    input_is_refused,
    a_language_the_image_lacks_says_what_to_install,
]
OTHERS = [
    declarations_can_be_made_again,
    values_look_as_node_shows_them,
    rich_values_have_their_types,
    errors_show_the_cell_and_nothing_else,
    modules_are_found_from_the_working_directory,
    nothing_that_spins_or_waits_holds_out,
    failures_outside_of_cells_end_nothing,
    a_call_for_the_debugger_changes_nothing,
    types_are_removed,
    typescript_says_when_its_package_is_missing,
    java_keeps_what_is_declared,
    java_tells_what_a_compiler_or_an_exception_says,
    java_tells_what_a_declaration_lacks,
    java_tells_how_its_process_ended,
    go_keeps_declarations_and_values,
    go_makes_anew_what_cannot_be_kept,
    go_runs_programs_as_they_are,
    go_tells_what_went_wrong,
]


def main():
    tap = Tap()
    os.makedirs(GO_CACHE, exist_ok=True)
    with Execd(PROGRAM, env={"NODE_PATH": NODE_MODULES, "GOCACHE": GO_CACHE}) as execd:
        for language in NEEDS:
            for test in EACH:
                tap.check(f"{language}: {test.__name__}", test, execd, language)
        for test in OTHERS:
            tap.check(test.__name__, test, execd)
    return tap.end()


sys.exit(main())
