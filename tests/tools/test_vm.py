#!/usr/bin/env python3
"""test_vm.py - tests/vm/run.py loses no failure of what runs in the VM."""
import io
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import tap

sys.dont_write_bytecode = True
sys.path.insert(0, str(tap.ROOT / "tests/vm"))
import image  # pylint: disable=wrong-import-position
import run  # pylint: disable=wrong-import-position


def job(name, group="root"):
    return run.Job(group, "9", pathlib.Path(name), f"build/musl/{name}", [])


def report(said, jobs, why=""):
    """(exit status, the lines printed without comments) when the guest says that."""
    out = io.StringIO()
    r = run.Report(jobs, out)
    for line in said.splitlines():
        r.line(line)
    status = r.finish(why)
    return status, [line for line in out.getvalue().splitlines() if not line.startswith("#")]


def two_programs_make_one_stream():
    said = "@boot 1.0 6.1\n@begin 0\nok 1 - a b\n1..1\n@end 0 0\n" \
           "@begin 1\n1..2\nok 1 - c d\nok 2 - e # SKIP no\n@end 1 0\n@done\n"
    assert report(said, [job("x"), job("y", "own")]) == (0, [
        "ok 1 - musl x: a b", "ok 2 - musl y in a group: c d",
        "ok 3 - musl y in a group: e # SKIP no", "1..3"])


def a_failed_test_fails_once():
    said = "@begin 0\nnot ok 1 - a\n1..1\n@end 0 1\n@done"
    assert report(said, [job("x")]) == (1, ["not ok 1 - musl x: a", "1..1"])


def a_program_that_ends_badly_fails():
    for end, text in (("1..1\n@end 0 3", "exit status 3"),
                      ("1..1\n@end 0 leftovers", "exit status leftovers"),
                      ("1..2\n@end 0 0", "planned 2, ran 1, exit status 0"),
                      ("@end 0 137", "planned None, ran 1, exit status 137")):
        assert report(f"@begin 0\nok 1 - a\n{end}\n@done", [job("x")]) == (
            1, ["ok 1 - musl x: a", f"not ok 2 - musl x: {text}", "1..2"])


def a_program_that_skips_all_is_a_skip():
    assert report("@begin 0\n1..0 # SKIP not root\n@end 0 0\n@done", [job("x")]) == (
        0, ["ok 1 - musl x # SKIP not root", "1..1"])


def a_vm_that_stops_early_fails():
    said = "@begin 0\nok 1 - a\n1..1\n@end 0 0\n"
    assert report(said + "@begin 1\n", [job("x"), job("y")], "not done after 9 s")[1][1:] == [
        "not ok 2 - musl y: not done after 9 s", "1..2"]
    for jobs, why in ((1, ""), (2, "ended"), (2, "")):
        assert report(said, [job("x")] * jobs, why)[0] == 1
    assert report(said + "@done", [job("x")] * 2)[0] == 1
    assert report("", [job("x")], "ended")[0] == 1


def a_silent_vm_meets_the_deadline():
    with subprocess.Popen(["sh", "-c", "echo one; exec sleep 1000"],
                          stdout=subprocess.PIPE) as process:
        lines = []
        select.select([process.stdout], [], [])  # it has said all it will say
        try:
            for line in run.lines_until(process, time.monotonic() + 0.1):
                lines.append(line)
            assert False, "no deadline"
        except TimeoutError:
            assert lines == ["one"]
        finally:
            process.kill()


def the_table_names_only_what_exists():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "musl").mkdir()
        (folder / "musl/test_a").touch()
        (folder / "musl/test_a.p").mkdir()
        tree = run.Tree({"musl": folder / "musl"})

        def read(text):
            (folder / "table").write_text(text)
            return run.read_programs(folder / "table", tree)

        jobs, needed = read("with /bin/sh # comment\nown 9 build/musl/test_* -v\n")
        assert [j.guest_line(4) for j in jobs] == ["4 own 9 build/musl/test_a -v\n"]
        assert needed == [(pathlib.Path("/bin/sh"), "/bin/sh")]
        for bad in ("own 9 build/musl/test_b", "with /nonexistent", "own x build/musl/test_a",
                    "root", "rot 9 build/musl/test_a"):
            try:
                read(bad)
            except image.ImageError:
                continue
            assert False, bad


def modules_come_after_what_they_need():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        modules = folder / "lib/modules/6.1"
        modules.mkdir(parents=True)
        (folder / "boot").mkdir()
        (folder / "boot/vmlinuz-6.1").touch()
        (modules / "modules.dep").write_text(
            "k/a-b.ko.xz: k/c.ko k/d.ko\nk/c.ko: k/d.ko\nk/d.ko:\n")
        (modules / "modules.builtin").write_text("k/e.ko\n")
        kernel = image.Kernel(folder)
        assert kernel.module_order(["e", "a_b", "c"]) == ["k/d.ko", "k/c.ko", "k/a-b.ko.xz"]
        try:
            kernel.module_order(["f"])
            assert False, "there is no module f"
        except image.ImageError:
            pass


def libraries_are_found_with_the_interpreter():
    names = {path.name.split(".so")[0] for path in image.libraries(sys.executable)}
    assert "libc" in names and any(name.startswith("ld-") for name in names), names


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        two_programs_make_one_stream,
        a_failed_test_fails_once,
        a_program_that_ends_badly_fails,
        a_program_that_skips_all_is_a_skip,
        a_vm_that_stops_early_fails,
        a_silent_vm_meets_the_deadline,
        the_table_names_only_what_exists,
        modules_come_after_what_they_need,
        libraries_are_found_with_the_interpreter,
    ]))
