"""Cells with state, and a chart: the picture comes back as bytes."""
import asyncio

from code_interpreter import CodeInterpreter
from opensandbox import Sandbox

CHART = """
class Chart:
    def _repr_svg_(self):
        bars = "".join(f'<rect x="{10 * n}" y="{50 - v}" width="8" height="{v}"/>'
                       for n, v in enumerate(values))
        return f'<svg xmlns="http://www.w3.org/2000/svg">{bars}</svg>'

Chart()
"""


async def main() -> None:
    async with await Sandbox.create("opensandbox/code-interpreter:v1.0.2") as sandbox:
        interpreter = await CodeInterpreter.create(sandbox)
        await interpreter.codes.run("values = [n * n for n in range(7)]")
        done = await interpreter.codes.run(CHART)
        for result in done.result:
            print(result.formats)
            if result.svg:
                print(result.svg.count("<rect"), "bars")
        await sandbox.kill()


asyncio.run(main())
