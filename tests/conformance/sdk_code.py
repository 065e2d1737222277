"""sdk_code.py - what programs do with the official code interpreter client, for each language.

A language is a row of LANGUAGES: cells that do the same in all of them.
"""
from typing import NamedTuple

from code_interpreter import CodeInterpreter, CodeInterpreterSync
from opensandbox.exceptions import SandboxException

from sdk_client import done, lines, raises

IMAGE = "opensandbox/code-interpreter:latest"
ENTRYPOINT = ["/opt/code-interpreter/code-interpreter.sh"]


class Language(NamedTuple):
    """Cells, and what comes of them."""

    name: str
    say: str  # prints "hello" and a line end
    say_error: str  # the same to stderr
    keep: str  # remembers {value}, a number
    recall: str  # an expression: what was remembered
    fail: str  # ends in an error
    error: str  # its name
    wait: str  # prints "one", waits for the file {path}, prints "two"
    sleep: str  # for a minute
    interrupted: str  # the name of the error of an interrupted cell; "" = any
    program: str  # without which the image does not have it


def node(name):
    return Language(
        name=name,
        say="console.log('hello')",
        say_error="console.error('hello')",
        keep="const kept = {value}",
        recall="kept",
        fail="function f(x) { return x.y.z }\nf({})",
        error="TypeError",
        wait="console.log('one')\nwhile (!require('fs').existsSync('{path}'))\n"
             "    await new Promise(r => setTimeout(r, 50))\nconsole.log('two')",
        sleep="await new Promise(r => setTimeout(r, 60000))",
        interrupted="Interrupted",
        program="node",
    )


LANGUAGES = [
    Language(
        name="python",
        say="print('hello')",
        say_error="import sys; print('hello', file=sys.stderr)",
        keep="kept = {value}",
        recall="kept",
        fail="def f(x):\n    return 1 / x\nf(0)",
        error="ZeroDivisionError",
        wait="import os, time\nprint('one')\n"
             "while not os.path.exists('{path}'): time.sleep(0.05)\nprint('two')",
        sleep="import time\ntime.sleep(60)",
        interrupted="KeyboardInterrupt",
        program="python3",
    ),
    node("javascript"),
    node("typescript"),
    Language(
        name="java",
        say='System.out.println("hello");',
        say_error='System.err.println("hello");',
        keep="int kept = {value};",
        recall="kept",
        fail="int f(int x) { return 1 / x; }\nf(0)",
        error="EvalException",
        wait='System.out.println("one");\nwhile (!new java.io.File("{path}").exists()) '
             'Thread.sleep(50);\nSystem.out.println("two");',
        sleep="Thread.sleep(60000);",
        interrupted="EvaluationInterruptedException",
        program="jshell",
    ),
    Language(
        name="go",
        say='fmt.Println("hello")',
        say_error='fmt.Fprintln(os.Stderr, "hello")',
        keep="kept := {value}",
        recall="kept",
        fail="func f(x int) int { return 1 / x }\nf(0)",
        error="panic",
        wait='import "time"\nfmt.Println("one")\nfor _, err := os.Stat("{path}"); err != nil; '
             '_, err = os.Stat("{path}") {{ time.Sleep(50 * time.Millisecond) }}\n'
             'fmt.Println("two")',
        sleep="time.Sleep(time.Minute)",
        interrupted="Interrupted",
        program="go",
    ),
]


async def has(sandbox, language):
    """Whether the image has it."""
    found = await done(sandbox.commands.run(f"command -v {language.program}"))
    return found.error is None


async def install_typescript(sandbox, package):
    """As `npm install typescript` would in the working directory: the two files that count."""
    where = (await done(sandbox.commands.run("pwd"))).logs.stdout[0].text.strip()
    for name in ("package.json", "lib/typescript.js"):
        await done(sandbox.files.write_file(f"{where}/node_modules/typescript/{name}",
                                            (package / name).read_bytes()))


async def open_interpreter(client, sandbox):
    kind = CodeInterpreter if client.is_async else CodeInterpreterSync
    return await done(kind.create(sandbox=sandbox))


async def close_interpreter(interpreter):
    await done(interpreter.aclose() if hasattr(interpreter, "aclose") else interpreter.close())


async def touch(codes, path):
    """Makes the file that cells wait for."""
    result = await done(codes.run(f"open('{path}', 'w').close()", language="python"))
    assert result.error is None, result


def text(messages):
    return "".join(lines(messages))


async def output_is_reported(_, codes, language):
    context = await done(codes.create_context(language.name))
    result = await done(codes.run(language.say, context=context))
    assert text(result.logs.stdout) == "hello\n" and not result.logs.stderr, result
    assert result.error is None and result.complete and result.id == context.id, result
    result = await done(codes.run(language.say_error, context=context))
    assert "hello" in text(result.logs.stderr), result


async def state_is_kept_from_cell_to_cell(_, codes, language):
    context = await done(codes.create_context(language.name))
    await done(codes.run(language.keep.format(value=7), context=context))
    result = await done(codes.run(language.recall, context=context))
    assert result.error is None and result.result[0].text == "7", result
    assert result.execution_count == 2, result


async def an_error_is_reported_and_the_context_survives(_, codes, language):
    context = await done(codes.create_context(language.name))
    await done(codes.run(language.keep.format(value=8), context=context))
    result = await done(codes.run(language.fail, context=context))
    assert result.error.name == language.error and result.error.traceback, result
    result = await done(codes.run(language.recall, context=context))
    assert result.error is None and result.result[0].text == "8", result


async def handlers_hear_of_output_as_it_comes(client, codes, language):
    seen, path = [], f"/tmp/{language.name}-heard"
    handlers = client.handlers(
        on_init=lambda event: seen.append(("init", event.id)),
        on_stdout=lambda event: seen.append(("stdout", event.text)),
        on_result=lambda event: seen.append(("result", event.text)),
        on_error=lambda event: seen.append(("error", event.name)),
        on_execution_complete=lambda _: seen.append(("complete", "")))
    context = await done(codes.create_context(language.name))
    await done(codes.run(language.keep.format(value=1), context=context))

    async def wait():
        await done(codes.run(language.wait.format(path=path), context=context, handlers=handlers))

    async def hear():
        await client.until_seen(seen, 2)
        await touch(codes, path)

    await client.gather([wait, hear])
    assert seen == [("init", context.id), ("stdout", "one\n"), ("stdout", "two\n"),
                    ("complete", "")], seen
    seen.clear()
    await done(codes.run(language.recall, context=context, handlers=handlers))
    assert seen == [("init", context.id), ("result", "1"), ("complete", "")], seen
    seen.clear()
    await done(codes.run(language.fail, context=context, handlers=handlers))
    assert seen == [("init", context.id), ("error", language.error), ("complete", "")], seen


async def a_cell_is_interrupted(client, codes, language):
    context = await done(codes.create_context(language.name))
    await done(codes.run(language.keep.format(value=3), context=context))
    ids = []

    async def long():
        return await done(codes.run(language.sleep, context=context, handlers=client.handlers(
            on_init=lambda event: ids.append(event.id))))

    async def interrupt():
        await client.until_seen(ids)
        await done(codes.interrupt(ids[0]))

    result, _ = await client.gather([long, interrupt])
    assert result.error is not None, result
    assert language.interrupted in ("", result.error.name), result
    result = await done(codes.run(language.recall, context=context))
    assert result.error is None and result.result[0].text == "3", result


async def contexts_run_at_once_and_apart(client, codes, language):
    contexts = [await done(codes.create_context(language.name)) for _ in range(3)]
    said, path = [], f"/tmp/{language.name}-all-there"

    async def use(number):
        context = contexts[number]
        await done(codes.run(language.keep.format(value=number), context=context))
        waited = await done(codes.run(
            language.wait.format(path=path), context=context,
            handlers=client.handlers(on_stdout=lambda event: said.append(event.text))))
        assert text(waited.logs.stdout) == "one\ntwo\n", waited
        return (await done(codes.run(language.recall, context=context))).result[0].text

    async def hear():
        await client.until_seen(said, len(contexts))
        await touch(codes, path)

    *values, _ = await client.gather([*(lambda n=n: use(n) for n in range(len(contexts))), hear])
    assert values == ["0", "1", "2"], values


async def a_language_has_a_default_context(_, codes, language):
    first = await done(codes.run(language.keep.format(value=5), language=language.name))
    second = await done(codes.run(language.recall, language=language.name))
    assert first.id == second.id and second.result[0].text == "5", (first, second)
    listed = [c.id for c in await done(codes.list_contexts(language.name))]
    assert first.id in listed, listed


async def contexts_are_listed_and_deleted(_, codes, language):
    context = await done(codes.create_context(language.name))
    found = await done(codes.get_context(context.id))
    assert (found.id, found.language) == (context.id, language.name), found
    await done(codes.delete_context(context.id))
    await raises(SandboxException, lambda: codes.get_context(context.id))
    await raises(SandboxException, lambda: codes.run(language.say, context=context))
    await done(codes.delete_contexts(language.name))
    assert await done(codes.list_contexts(language.name)) == []


async def a_busy_context_says_so(client, codes, language):
    context = await done(codes.create_context(language.name))
    said, path = [], f"/tmp/{language.name}-was-busy"

    async def first():
        return await done(codes.run(
            language.wait.format(path=path), context=context,
            handlers=client.handlers(on_stdout=lambda event: said.append(event.text))))

    async def second():
        await client.until_seen(said)
        refused = await done(codes.run(language.say, context=context))
        await touch(codes, path)
        return refused

    one, two = await client.gather([first, second])
    assert one.error is None and text(one.logs.stdout) == "one\ntwo\n", one
    assert "busy" in two.error.value, two


OF_A_LANGUAGE = [
    output_is_reported,
    state_is_kept_from_cell_to_cell,
    an_error_is_reported_and_the_context_survives,
    handlers_hear_of_output_as_it_comes,
    a_cell_is_interrupted,
    contexts_run_at_once_and_apart,
    a_language_has_a_default_context,
    a_busy_context_says_so,
    contexts_are_listed_and_deleted,  # all: so it comes last
]


async def an_unknown_language_is_an_error_at_once(_, codes):
    error = await raises(SandboxException, lambda: codes.create_context("cobol"))
    assert "cobol" in str(error), error
    await raises(SandboxException, lambda: codes.run("x", language="cobol"))


async def a_kernel_that_dies_says_so(_, codes):
    context = await done(codes.create_context("python"))
    result = await done(codes.run("import os; os.kill(os.getpid(), 9)", context=context))
    assert result.error.name == "KernelDied" and "killed" in result.error.value, result
    result = await done(codes.run("1 + 1", context=context))
    assert result.result[0].text == "2" and "new one" in text(result.logs.stderr), result


async def rich_results_do_not_disturb(_, codes):
    context = await done(codes.create_context("python"))
    result = await done(codes.run(
        "class Table:\n"
        "    def _repr_html_(self):\n        return '<table>'\n"
        "    def __repr__(self):\n        return 'a table'\n"
        "display(Table())\nTable()", context=context))
    assert [r.text for r in result.result] == ["a table", "a table"], result
    assert result.execution_count == 1, result


TESTS = [
    an_unknown_language_is_an_error_at_once,
    a_kernel_that_dies_says_so,
    rich_results_do_not_disturb,
]
