"""Four languages in one sandbox, each cell with its output and its result.

usage: main.py [LANGUAGE...]
"""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, show  # noqa: E402

from code_interpreter import CodeInterpreter  # noqa: E402
from opensandbox import Sandbox  # noqa: E402

CELLS = {
    "python": "import platform\nprint('Hello from Python', platform.python_version()[:2])\n"
              "{'language': 'python', 'sum': 2 + 2}",
    "java": 'System.out.println("Hello from Java");\nint result = 2 + 3;\n'
            'System.out.println("2 + 3 = " + result);\nresult',
    "go": 'package main\nimport "fmt"\nfunc main() {\n    fmt.Println("Hello from Go")\n'
          '    fmt.Println("3 + 4 =", 3+4)\n}',
    "typescript": "const sum: number = [1, 2, 3].reduce((a, b) => a + b, 0);\n"
                  "console.log('Hello from TypeScript');\nconsole.log(`sum = ${sum}`);",
}


async def run_cells(sandbox, languages=CELLS):
    """{language: execution} of a cell of each."""
    interpreter = await CodeInterpreter.create(sandbox)
    done = {}
    for language in languages:
        print(f"=== {language} ===")
        done[language] = show(await interpreter.codes.run(CELLS[language], language=language))
        if done[language].error:
            raise RuntimeError(f"the cell in {language} failed: {done[language].error.value}")
    return done


async def main():
    sandbox = await Sandbox.create(
        image("opensandbox/code-interpreter:latest"),
        entrypoint=["/opt/code-interpreter/code-interpreter.sh"], connection_config=connection())
    async with sandbox:
        try:
            await run_cells(sandbox, sys.argv[1:] or CELLS)
        finally:
            await sandbox.kill()


if __name__ == "__main__":
    asyncio.run(main())
