"""A tree search over a coding task: every node is a sandbox, its children are forks of it.

The task is a function with a test. In each round the current node is forked once per proposed
edit, the edits are tried side by side, and the best child becomes the node. Without forks each
child would have to repeat all edits before. A snapshot is kept of the best node; at the end a
sandbox that was broken on purpose is rolled back to it.
"""
import asyncio
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run  # noqa: E402

from opensandbox import Sandbox, SandboxManager  # noqa: E402
from opensandbox.exceptions import SandboxApiException  # noqa: E402

FIRST = '''def roman(n):
    """The Roman numeral of a number from 1 to 3999."""
    text = ""
    # values
    # loop
    return text
'''
TEST = '''import importlib.util, json
from roman import roman
cases = {1: "I", 3: "III", 4: "IV", 9: "IX", 14: "XIV", 40: "XL", 58: "LVIII", 90: "XC",
         400: "CD", 944: "CMXLIV", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}
def right(n, want):
    try:
        return roman(n) == want
    except Exception:
        return False
print(json.dumps({"passed": sum(right(n, want) for n, want in cases.items()), "all": len(cases)}))
'''
LOOP = '    for value, letters in VALUES:\n        while n >= value:\n' \
       '            text += letters\n' \
       '            n -= value\n'
PLAIN = '[(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]'
PAIRS = '[(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),\n' \
        '              (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]'
# What a model would propose: per round, edits as (what is there, what comes in its place).
ROUNDS = [
    [("    # values\n", '    VALUES = [(1, "I")]\n'), ("    # loop\n", '    text += "I" * n\n'),
     ("    # loop\n", '    text += "I" if n == 1 else ""\n')],
    [('    text += "I" * n\n', LOOP), ("    # values\n", f"    VALUES = {PLAIN}\n"),
     ('    text += "I" * n\n', '    text += "I" * n if n < 4 else "IV"\n')],
    [("    # values\n", f"    VALUES = {PAIRS}\n"), ("return text", "return text[:3]"),
     ('    text += "I" * n if n < 4 else "IV"\n', LOOP)],
    [('    text += "I" * n if n < 4 else "IV"\n', LOOP), ("# values", "# no values"),
     ("return text", "return text.lower()")],
]


async def score(sandbox):
    return json.loads(await run(sandbox, "cd /root/task && python3 test.py"))


async def edit(sandbox, old, new):
    """False when the text is not there: the proposal does not fit."""
    text = await sandbox.files.read_file("/root/task/roman.py")
    if old not in text:
        return False
    await sandbox.files.write_file("/root/task/roman.py", text.replace(old, new))
    return True


class Made:
    """The sandboxes and snapshots of this search, removed at its end, however it ends."""

    def __init__(self, manager):
        self.manager, self.sandboxes, self.snapshots = manager, set(), set()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for name in list(self.sandboxes):
            await self.kill(name)
        for name in list(self.snapshots):
            await self.manager.delete_snapshot(name)
            self.snapshots.discard(name)

    async def kill(self, name):
        try:
            await self.manager.kill_sandbox(name)
        except SandboxApiException as error:  # it is gone, of which an interrupt kept the answer
            if error.status_code != 404:
                raise
        self.sandboxes.discard(name)

    @staticmethod
    async def known(call, kept, ids):
        """What the call answers. Also when an interrupt comes, `kept` learns what it made."""
        task = asyncio.ensure_future(call)
        try:
            return await asyncio.shield(task)
        finally:
            kept.update(ids(await task))

    async def sandbox(self):
        return await self.known(Sandbox.create(image("host"), connection_config=connection()),
                                self.sandboxes, lambda box: [box.id])

    async def forks(self, node, count):
        return await self.known(node.fork(count), self.sandboxes,
                                lambda forks: [info.id for info in forks])

    async def snapshot(self, node):
        made = await self.known(node.create_snapshot("best"), self.snapshots, lambda s: [s.id])
        await self.manager.wait_for_snapshot(made.id)
        return made


async def try_edit(info, proposal):
    """A child by its id: the sandbox and how many cases it passes; -1 = the edit does not fit."""
    child = await Sandbox.connect(info.id, connection_config=connection())
    fits = await edit(child, *proposal)
    return (await score(child))["passed"] if fits else -1, child


async def search(node, made):
    """The best node, its score and a snapshot of it."""
    best = (await score(node))["passed"]
    print(f"start: {best} of 12 cases")
    for depth, proposals in enumerate(ROUNDS, 1):
        forks = await made.forks(node, len(proposals))
        tried = await asyncio.gather(*map(try_edit, forks, proposals))
        scores = [passed for passed, _ in tried]
        chosen = max(range(len(tried)), key=lambda i: scores[i])
        print(f"depth {depth}: {scores}, took {chosen}")
        for i, (_, child) in enumerate(tried):
            if i != chosen:
                await made.kill(child.id)
        await made.kill(node.id)
        node, best = tried[chosen][1], scores[chosen]
    return node, best, await made.snapshot(node)


async def main():
    async with await SandboxManager.create(connection()) as manager, Made(manager) as made:
        node = await made.sandbox()
        await run(node, "mkdir -p /root/task")
        await node.files.write_file("/root/task/roman.py", FIRST)
        await node.files.write_file("/root/task/test.py", TEST)
        node, best, snapshot = await search(node, made)
        print(f"found: {best} of 12 cases")
        await run(node, "rm -r /root/task")
        await node.rollback(snapshot.id)
        print(f"after rollback: {(await score(node))['passed']} of 12 cases")


if __name__ == "__main__":
    asyncio.run(main())
