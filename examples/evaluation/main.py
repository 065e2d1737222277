"""An evaluation in the shape of SWE-bench: fifty tasks, each in a sandbox of its own, and a report.

usage: main.py [--parallel N] [--report FILE] [--seconds N]
"""
import argparse
import asyncio
import json
import pathlib
import re
import sys
import time
from collections import Counter
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run  # noqa: E402
from tasks import tasks  # noqa: E402

from opensandbox import Sandbox  # noqa: E402
from opensandbox.models.filesystem import WriteEntry  # noqa: E402

REPO = "/tmp/repo"
KILLED = (128 + 9, 128 + 24)  # by timeout -s KILL, or for its processor time (SIGXCPU)
WALL_FACTOR = 20  # of the processor time: a machine may be busy with other tasks
STATUS = re.compile(r"^(test_\w+) .*\.\.\. (ok|FAIL|ERROR)$", re.MULTILINE)


async def test(sandbox, seconds):
    """{test: passed}; None when the tests did not end in these seconds of processor time."""
    # What comes late is an event of its own, and unittest writes each line in two parts: a file
    # puts them together.
    done = await sandbox.commands.run(
        f"cd {REPO} && ulimit -t {seconds} && timeout -s KILL {WALL_FACTOR * seconds} "
        "python3 -m unittest -v >/tmp/said 2>&1; code=$?; cat /tmp/said; exit $code")
    if done.exit_code in KILLED:
        return None
    return {name: word == "ok" for name, word in STATUS.findall(done.text)}


async def evaluate(task, prediction, seconds):
    """What came of one prediction."""
    sandbox = await Sandbox.create(image("host"), timeout=timedelta(minutes=10),
                                   resource={"cpu": "1", "memory": "256Mi"},
                                   metadata={"task": task["instance_id"]},
                                   connection_config=connection())
    try:
        await run(sandbox, f"mkdir -p {REPO}")
        await sandbox.files.write_files(
            [WriteEntry(path=f"{REPO}/{name}", data=text) for name, text in task["files"].items()] +
            [WriteEntry(path="/tmp/model.patch", data=prediction["model_patch"])])
        before = await test(sandbox, seconds)
        if before is None:
            return {"outcome": "timed out before the patch"}
        wrong = [name for name in task["FAIL_TO_PASS"] if before.get(name, True)] + \
            [name for name in task["PASS_TO_PASS"] if not before.get(name)]
        if wrong:
            return {"outcome": "broken task", "tests": wrong}
        applied = await sandbox.commands.run(f"cd {REPO} && git apply /tmp/model.patch")
        if applied.exit_code:
            return {"outcome": "patch does not apply"}
        after = await test(sandbox, seconds)
        if after is None:
            return {"outcome": "timed out"}
        fixed = all(after.get(name) for name in task["FAIL_TO_PASS"])
        kept = all(after.get(name) for name in task["PASS_TO_PASS"])
        return {"outcome": "resolved" if fixed and kept else
                "regression" if not kept else "not fixed"}
    finally:
        await sandbox.destroy()


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parallel", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=10,
                        help="of processor time, for the tests of one task")
    parser.add_argument("--report", type=pathlib.Path, default="report.json")
    options = parser.parse_args()
    places = asyncio.Semaphore(options.parallel)
    began = time.monotonic()

    async def one(task, prediction):
        async with places:
            start = time.monotonic()
            result = await evaluate(task, prediction, options.seconds)
            return {"instance_id": task["instance_id"], **result,
                    "seconds": round(time.monotonic() - start, 2)}

    rows = await asyncio.gather(*(one(*pair) for pair in tasks()))
    counts = Counter(row["outcome"] for row in rows)
    report = {"total": len(rows), "resolved": counts["resolved"], "outcomes": dict(counts),
              "parallel": options.parallel, "seconds": round(time.monotonic() - began, 1),
              "resolved_ids": [r["instance_id"] for r in rows if r["outcome"] == "resolved"],
              "instances": rows}
    options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        if row["outcome"] != "resolved":
            print(f"{row['instance_id']:24} {row['outcome']}")
    print(f"resolved {report['resolved']} of {report['total']} in {report['seconds']} s, "
          f"{options.parallel} at a time: {dict(counts)}")


if __name__ == "__main__":
    asyncio.run(main())
