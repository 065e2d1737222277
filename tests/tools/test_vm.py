#!/usr/bin/env python3
"""test_vm.py - tests/vm/run.py loses no failure of what runs in the VM."""
import io
import pathlib
import sys
import tempfile

import tap

sys.dont_write_bytecode = True
sys.path.insert(0, str(tap.ROOT / "tests/vm"))
import image  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position
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


def play(scripts, jobs, **limits):
    """Runs the jobs in VMs that are played by these shell scripts, one after the other. Returns the
    exit status, all lines printed, and the numbers of the jobs that each VM was to run."""
    out, asked = io.StringIO(), []
    waiting = iter(scripts)

    def prepare(numbers):
        asked.append(numbers)
        return ["sh", "-c", next(waiting)], pathlib.Path("/nonexistent")

    # Only the limit that a test is about can be reached.
    limits = {"total": 1e6, "boot": 1e6, "silence": 1e6, "grace": 1e6, "off": 1e6, **limits}
    status = machine.run_jobs(run.Report(jobs, out), prepare, machine.Limits(**limits))
    assert next(waiting, None) is None, "a VM was not booted"
    return status, out.getvalue().splitlines(), asked


def results(lines):
    return [line for line in lines if not line.startswith("#")]


# What a guest says, in one write: nothing can come between.
def says(text, then=""):
    return f"printf '{text}'; {then}"


BEATS = "while printf '\\005\\006'; do sleep 0.01; done"
HANGS = "exec sleep 1000"


def job_lines(number, name):
    return f"@begin {number}\nok 1 - {name}\n1..1\n@end {number} 0\n"


BOOT = "@boot 1.0 6.1\n"


def a_frozen_vm_is_booted_again():
    status, lines, asked = play(
        [says(BOOT + job_lines(0, "a") + "@begin 1\nok 1 - b\n", HANGS),
         says(BOOT + job_lines(1, "b") + job_lines(2, "c") + "@done\n")],
        [job("x"), job("y"), job("z")], silence=0.2)
    assert results(lines) == ["ok 1 - musl x: a", "ok 2 - musl y: b", "ok 3 - musl y: b",
                              "ok 4 - musl z: c", "1..4"]
    assert status == 0 and asked == [[0, 1, 2], [1, 2]]
    assert ("# musl y: the emulator froze: no pulse of CPU 0 for 0.2 s; "
            "programs left for a fresh VM: 2") in lines, lines


def one_frozen_cpu_is_a_frozen_vm():
    one = "while printf '\\005'; do sleep 0.01; done"
    status, lines, _ = play([says(BOOT + "@begin 0\n", one), says(BOOT + job_lines(0, "a") +
                                                                "@done\n")],
                            [job("x")], silence=1)
    assert status == 0 and results(lines) == ["ok 1 - musl x: a", "1..1"]
    assert any("no pulse of CPU 1" in line for line in lines), lines


def a_vm_that_does_not_boot_is_booted_again():
    status, lines, asked = play([HANGS, HANGS, HANGS], [job("x")], boot=0.1)
    assert asked == [[0], [0], [0]]
    assert (status, results(lines)) == (
        1, ["not ok 1 - the VM: the VM did not boot in 0.1 s after 0 of 1 programs", "1..1"])


def a_job_that_freezes_each_vm_fails():
    freezes = says(BOOT + "@begin 0\n", HANGS)
    status, lines, asked = play([freezes, freezes, says(BOOT + job_lines(1, "b") + "@done\n")],
                                [job("x"), job("y")], silence=0.2)
    assert asked == [[0, 1], [0, 1], [1]]
    assert (status, results(lines)) == (1, [
        "not ok 1 - musl x: the emulator froze: no pulse of CPU 0 for 0.2 s", "ok 2 - musl y: b",
        "1..2"])


def the_number_of_vms_is_bounded():
    frozen = [says(BOOT + f"@begin {number}\n", HANGS) for number in (0, 0, 1)]
    status, lines, asked = play(frozen, [job("x"), job("y"), job("z")], silence=0.2)
    assert asked == [[0, 1, 2], [0, 1, 2], [1, 2]]
    assert status == 1 and [line.split(":")[0] for line in results(lines)] == [
        "not ok 1 - musl x", "not ok 2 - musl y", "not ok 3 - the VM", "1..3"]


def a_stuck_job_fails_and_the_others_run():
    stuck = run.Job("root", "0", pathlib.Path("y"), "build/musl/y", [])
    status, lines, asked = play(
        [says(BOOT + job_lines(0, "a") + "@begin 1\nok 1 - b\n", BEATS),
         says(BOOT + job_lines(2, "c") + "@done\n")],
        [job("x"), stuck, job("z")], grace=0.2)
    assert asked == [[0, 1, 2], [2]]
    assert (status, results(lines)) == (1, [
        "ok 1 - musl x: a", "ok 2 - musl y: b", "not ok 3 - musl y: not done after 0 s",
        "ok 4 - musl z: c", "1..4"])


def a_job_that_ends_its_vm_fails_and_the_others_run():
    status, lines, asked = play([says(BOOT + "@begin 0\n", "exit 3"),
                                 says(BOOT + job_lines(1, "b") + "@done\n")], [job("x"), job("y")])
    assert asked == [[0, 1], [1]]
    assert (status, results(lines)) == (1, [
        "not ok 1 - musl x: the VM ended early, QEMU's exit status is 3", "ok 2 - musl y: b",
        "1..2"])


def a_vm_that_ends_without_a_job_is_not_booted_again():
    status, lines, asked = play(["exit 3"], [job("x")])
    assert len(asked) == 1 and status == 1
    assert results(lines)[0].startswith("not ok 1 - the VM: the VM ended early"), lines


def a_vm_that_freezes_after_its_last_job_has_done_its_work():
    status, lines, asked = play([says(BOOT + job_lines(0, "a"), HANGS)], [job("x")], silence=0.2)
    assert len(asked) == 1 and (status, results(lines)) == (0, ["ok 1 - musl x: a", "1..1"])


def all_vms_together_have_a_limit():
    status, lines, asked = play([HANGS], [job("x"), job("y")], total=0.1)
    assert len(asked) == 1 and (status, results(lines)) == (
        1, ["not ok 1 - the VM: not done after 0.1 s after 0 of 2 programs", "1..1"])


def pulses_may_stand_inside_a_line():
    said = "@beg\\005in 0\no\\006k 1 - a\\005\n1..1\n@end 0 0\n@done\n"
    status, lines, _ = play([says(BOOT + said)], [job("x")])
    assert (status, results(lines)) == (0, ["ok 1 - musl x: a", "1..1"])


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
        a_frozen_vm_is_booted_again,
        one_frozen_cpu_is_a_frozen_vm,
        a_vm_that_does_not_boot_is_booted_again,
        a_job_that_freezes_each_vm_fails,
        the_number_of_vms_is_bounded,
        a_stuck_job_fails_and_the_others_run,
        a_job_that_ends_its_vm_fails_and_the_others_run,
        a_vm_that_ends_without_a_job_is_not_booted_again,
        a_vm_that_freezes_after_its_last_job_has_done_its_work,
        all_vms_together_have_a_limit,
        pulses_may_stand_inside_a_line,
        the_table_names_only_what_exists,
        modules_come_after_what_they_need,
        libraries_are_found_with_the_interpreter,
    ]))
