"""Runs cells of Python: a driver as docs/internals/execd.md has it. Python 3.6 and newer.

Only the standard library; and what is imported here delays the first cell, so what few cells need
is imported when they do.
"""
import os
import sys
from _thread import allocate_lock, get_ident

import _ast
import _signal
import builtins

try:
    from _json import encode_basestring_ascii as quote, scanstring
except ImportError:  # an interpreter whose json is not made of these
    from json.decoder import scanstring
    from json.encoder import encode_basestring_ascii as quote

REQUESTS, EVENTS, SCRIPT = 3, 4, 5
OURS = "<execd driver>"  # as what this file is compiled
READ_BYTES = 1 << 16
EVENT_BYTES_MAX = (16 << 20) - 256
CUT_TO = 1 << 16  # characters of a text in an event that would be too large
FIONREAD = 0x541b
ORDER_SECONDS_MAX = 1  # that a display waits for its reader
SOURCES_MAX = 1000
TRACEBACK_MAX = 30  # entries, the last ones
ONLY_AST, TOP_LEVEL_AWAIT, IS_COROUTINE = 0x400, 0x2000, 0x80  # as ast and inspect name them

PID, MAIN = os.getpid(), get_ident()
space = sys.modules["__main__"].__dict__
lock = allocate_lock()
sources = {}  # name of a cell: its text


class State:
    in_cell = False  # SIGINT is for it
    writing = False  # the main thread writes an event: SIGINT waits
    pending = False  # it came meanwhile
    loop = None  # of asyncio


class StdinNotImplementedError(RuntimeError):
    """A cell asked for input. There is nobody to give any."""
    __module__ = "builtins"  # tracebacks then name it without one


# --- events ---

def write_event(text):
    """One line. Half a line would be the end of us, so no KeyboardInterrupt comes in between."""
    if os.getpid() != PID:
        return  # a fork's; its lines could mix with ours
    data = memoryview(text.encode("ascii") + b"\n")
    with lock:
        State.writing = get_ident() == MAIN
        while data:
            data = data[os.write(EVENTS, data):]
        State.writing = False
    if State.pending and get_ident() == MAIN:
        State.pending = False
        if State.in_cell:
            raise KeyboardInterrupt


def on_sigint(*_):
    if State.in_cell and not State.writing:
        raise KeyboardInterrupt
    State.pending = State.in_cell


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            pass  # a cell closed it, or put something else there


def wait_until_read():
    """What is printed from now on then comes behind the event that was written last."""
    import fcntl
    import time
    end = time.monotonic() + ORDER_SECONDS_MAX
    while any(fcntl.ioctl(EVENTS, FIONREAD, bytes(4))) and time.monotonic() < end:
        time.sleep(0.00002)


def value_text(kind, value):
    """A value of a bundle as JSON."""
    if kind == "application/json" or kind.endswith("+json"):
        import json
        return json.dumps(value, default=str)
    if isinstance(value, (bytes, bytearray)):
        import base64
        value = base64.b64encode(value).decode()
    return quote(value if isinstance(value, str) else str(value))


def cut(text):
    if len(text) <= CUT_TO:
        return text
    return "%s... (%d characters, cut)" % (text[:CUT_TO], len(text))


def bundle_text(bundle):
    text = "{%s}" % ",".join("%s:%s" % (quote(kind), value_text(kind, value))
                             for kind, value in bundle.items() if value is not None)
    if len(text) <= EVENT_BYTES_MAX:
        return text
    return '{"text/plain":%s}' % quote(cut(str(bundle["text/plain"])))


# --- results ---

REPRS = {
    "text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_", "image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_", "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}
PLAIN = {int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range}


def call_repr(value, method, *args):
    """What a method of an object says about it, or None; (data, metadata) is data."""
    function = getattr(value, method, None)
    try:
        shown = function(*args) if callable(function) else None
    except NotImplementedError:
        return None
    return shown[0] if isinstance(shown, tuple) and len(shown) == 2 else shown


def figure_png(figure):
    import io
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def bundle_of(value):
    bundle = {"text/plain": repr(value)}
    if type(value) in PLAIN or isinstance(value, type):
        return bundle
    if is_figure(value):
        bundle["image/png"] = figure_png(value)
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot:
            pyplot.close(value)  # or it would be shown again
        return bundle
    shown = call_repr(value, "_repr_mimebundle_", None, None)
    if isinstance(shown, dict):
        bundle.update(shown)
    for kind, method in REPRS.items():
        if kind not in bundle:
            shown = call_repr(value, method)
            if shown is not None:
                bundle[kind] = shown
    return bundle


class DisplayHandle:
    """Shows something else in the place of what display() showed."""

    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, value, **more):
        display(value, display_id=self.display_id, **more)

    def update(self, value, **more):
        display(value, display_id=self.display_id, update=True, **more)


def display(*values, display_id=None, update=False, raw=False, **_):
    """Shows values in their richest form."""
    if display_id is True:
        display_id = os.urandom(16).hex()
    for value in values:
        bundle = dict(value) if raw else bundle_of(value)
        bundle.setdefault("text/plain", "")
        text = bundle_text(bundle)
        flush()
        write_event('{"type":"display","id":%s,"update":%s,"data":%s}' %
                    (quote(display_id or ""), "true" if update else "false", text))
        wait_until_read()
    return DisplayHandle(display_id) if display_id else None


def update_display(value, display_id, **more):
    display(value, display_id=display_id, update=True, **more)


def show_figures(*_, **__):
    """Those of matplotlib, as PNG; each is shown once."""
    plt = sys.modules["matplotlib.pyplot"]
    for number in plt.get_fignums():
        display(plt.figure(number))


# --- modules that should know of cells ---

def after_pyplot(module):
    module.show = show_figures


def after_linecache(module):
    for name, text in sources.items():
        remember_lines(module, name, text)


def after_ipython(module):
    module.display, module.update_display = display, update_display
    module.DisplayHandle = DisplayHandle
    module.clear_output = lambda wait=False: None  # nothing that was shown can be taken back


class AfterImport:
    """Among the finders of modules: calls a function as soon as a module was imported."""
    wanted = {"matplotlib.pyplot": after_pyplot, "linecache": after_linecache,
              "IPython.core.display_functions": after_ipython}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        then = cls.wanted.pop(name, None)
        if then is None:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not cls else None
            if spec is not None:
                break
        else:
            return None
        run = spec.loader.exec_module

        def run_then(module):
            run(module)
            then(module)
        spec.loader.exec_module = run_then
        return spec


def remember_lines(linecache, name, text):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def remember_source(name, text):
    """So that tracebacks show it."""
    linecache = sys.modules.get("linecache")
    if len(sources) >= SOURCES_MAX:
        oldest = next(iter(sources))
        del sources[oldest]
        if linecache:
            linecache.cache.pop(oldest, None)
    sources[name] = text
    if linecache:
        remember_lines(linecache, name, text)


# --- what notebooks know and Python does not: lines that begin with ! or % ---

def run_shell(command):
    import subprocess
    flush()
    status = subprocess.call(command, shell=True)
    if status:
        print("exit status %d" % status, file=sys.stderr)


def run_magic(line):
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if name == "pip":
        run_shell('"%s" -m pip %s' % (sys.executable, rest))
    elif name == "cd":
        os.chdir(os.path.expanduser(rest or "~"))
    elif name != "matplotlib":  # figures are always shown
        raise SyntaxError("there is no magic %%%s here; %%pip, %%cd and !command there is" % name)


def replace_magics(code):
    """With calls in the place of !command and %magic, on the same lines; None when there are none.
    After %%magic nothing is left."""
    lines, found = code.split("\n"), False
    if code.startswith("%%"):  # what follows is its argument
        del lines[1:]
    for i, line in enumerate(lines):
        text = line.lstrip()
        if text[:1] in ("!", "%"):
            call = "run_shell" if text[0] == "!" else "run_magic"
            lines[i] = "%s__import__('sys').modules['execd_driver'].%s(%r)" % (
                line[:len(line) - len(text)], call, text[1:])
            found = True
    return "\n".join(lines) if found else None


# --- a cell ---

def parse(code, name, flags):
    try:
        return compile(code, name, "exec", flags | ONLY_AST, True)
    except SyntaxError:
        code = replace_magics(code)
        if code is None:
            raise
    return compile(code, name, "exec", flags | ONLY_AST, True)


def run_code(code):
    """Runs compiled code; where it awaits, in the loop that all cells share."""
    value = eval(code, space)
    if not code.co_flags & IS_COROUTINE:
        return value
    if State.loop is None:
        import asyncio
        State.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(State.loop)
    task = State.loop.create_task(value)
    try:
        return State.loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        raise


def execute(code, name):
    """Runs a cell. The value of its last expression, if that is its last statement."""
    awaits = sys.version_info >= (3, 8) and ("await" in code or "async" in code)
    flags = TOP_LEVEL_AWAIT if awaits else 0
    tree = parse(code, name, flags)
    last = tree.body[-1] if tree.body else None
    is_shown = isinstance(last, _ast.Expr) and not code.rstrip().endswith(";")
    if is_shown:
        tree.body.pop()
    if tree.body:
        run_code(compile(tree, name, "exec", flags, True))
    if is_shown:
        return run_code(compile(_ast.Expression(last.value), name, "eval", flags, True))
    return None


def give_result(value):
    if value is None:
        return
    space["_"] = value
    text = bundle_text(bundle_of(value))
    flush()
    write_event('{"type":"result","data":%s}' % text)


def without_us(told):
    """A traceback without our own frames, also in what led to it."""
    for _ in range(100):
        if told is None:
            return
        told.stack[:] = [frame for frame in told.stack if frame.filename != OURS]
        told = told.__cause__ or told.__context__


def give_error(error):
    import traceback
    name = type(error).__name__
    try:
        value = str(error)
    except Exception:
        value = "<it cannot be put into words>"
    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        without_us(told)
        lines = [cut(line.rstrip("\n")) for line in told.format()][-TRACEBACK_MAX:]
    except Exception:
        lines = ["%s: %s" % (name, cut(value))]
    flush()
    write_event('{"type":"error","ename":%s,"evalue":%s,"traceback":[%s]}' %
                (quote(cut(name)), quote(cut(value)), ",".join(map(quote, lines))))


def run_cell(cell, code, name):
    """Its error, or None. A second SIGINT may hit us on the way out of the first."""
    try:
        try:
            State.in_cell = True
            write_event('{"type":"begin","id":%s}' % cell)
            give_result(execute(code, name))
            if "matplotlib.pyplot" in sys.modules:
                show_figures()
            flush()
        except BaseException as error:
            State.in_cell = False
            return error
    except KeyboardInterrupt as error:
        State.in_cell = False
        return error
    State.in_cell = False
    return None


def serve_cell(line):
    """execd writes its requests in this form and no other."""
    cell = line[line.index(":") + 1:line.index(",")]
    at = line.index('"count":') + 8
    count = line[at:line.index(",", at)]
    code = scanstring(line, line.index('"code":"', at) + 8, False)[0]
    name = "<cell %s>" % count
    remember_source(name, code)
    error = run_cell(cell, code, name)
    if os.getpid() != PID:
        leave_fork(error)
    if error is not None:
        give_error(error)
    flush()
    State.pending = False
    write_event('{"type":"done","id":%s}' % cell)


def leave_fork(error):
    """A cell forked, and its child came to the end of the cell."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    flush()
    os._exit(status)


def serve():
    """There is one request at a time, so the end of a line is the end of a piece."""
    pieces = []
    while True:
        piece = os.read(REQUESTS, READ_BYTES)
        if not piece:
            return
        pieces.append(piece)
        if piece.endswith(b"\n"):
            line = b"".join(pieces).decode("utf-8")
            pieces.clear()
            serve_cell(line)


def refuse_input(prompt=""):
    raise StdinNotImplementedError("input() is not possible here: a cell has no standard input")


def main():
    for fd in (REQUESTS, EVENTS, SCRIPT):
        os.set_inheritable(fd, False)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    _signal.signal(_signal.SIGINT, on_sigint)  # signal itself would import much
    sys.modules["execd_driver"] = type(sys)("execd_driver")
    sys.modules["execd_driver"].__dict__.update(run_shell=run_shell, run_magic=run_magic)
    sys.meta_path.insert(0, AfterImport)
    os.environ.setdefault("MPLBACKEND", "agg")
    builtins.input = refuse_input
    space["display"] = display
    write_event('{"type":"ready"}')
    serve()


main()
