#!/usr/bin/env python3
"""test_deploy.py UNIT... METRICS_TEXT... - the files of deploy/ fit the programs they are about.

UNIT are the configured service files; METRICS_TEXT are programs, each of which prints what /metrics
of one of ours has. TAP on standard output.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tap
import yaml

ROOT = tap.ROOT
UNITS = [pathlib.Path(path) for path in sys.argv[1:] if path.endswith(".service")]
METRICS_TEXTS = [path for path in sys.argv[1:] if not path.endswith(".service")]
DASHBOARD = ROOT / "deploy/grafana/opensandbox.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
# What Prometheus itself adds: a metric, and labels of each series.
OF_PROMETHEUS = {"up": {"job": set(), "instance": set()}}


def unit(name):
    return next(path for path in UNITS if path.name == name).read_text(encoding="utf-8")


def settings(text, name):
    """Words of every line that sets it."""
    return [word for line in re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
            for word in line.split()]


def the_broker_keeps_what_it_asks_for():
    """Capabilities of the unit are those of the table, no more and no fewer."""
    source = (ROOT / "src/broker/confine.c").read_text(encoding="utf-8")
    table = re.search(r"needed\[\] = \{(.*?)^\};", source, re.DOTALL | re.MULTILINE)[1]
    needed = set(re.findall(r"\{(CAP_\w+),", table))
    assert "CAP_SYS_ADMIN" in needed, "the table was not found"
    kept = set(settings(unit("opensandbox-broker.service"), "CapabilityBoundingSet"))
    assert kept == needed | {"CAP_LEASE", "CAP_SYS_RESOURCE"}, kept ^ needed


def the_server_has_no_privilege():
    text = unit("opensandbox-server.service")
    assert settings(text, "User") == ["opensandbox"]
    assert settings(text, "CapabilityBoundingSet") == []
    assert settings(text, "NoNewPrivileges") == ["yes"]


def the_account_is_the_one_the_units_name():
    text = (ROOT / "deploy/systemd/opensandbox.conf").read_text(encoding="utf-8")
    header = (ROOT / "src/server/config/config.h").read_text(encoding="utf-8")
    number = re.search(r"CONFIG_ID_DEFAULT = (\d+)", header)[1]
    assert re.search(rf"^u opensandbox {number} ", text, re.MULTILINE)


class Installation:
    """tools/install for the build that the units are of, with a DESTDIR of its own."""

    def __init__(self, scratch):
        build = UNITS[0].resolve().parent.parent
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
        self.prefix = next(o["value"] for o in options if o["name"] == "prefix")
        self.scratch, self.destdir = scratch, scratch / "dest"
        self.root = pathlib.Path(f"{self.destdir}{self.prefix}")
        (scratch / "build").mkdir()
        for flavour in ("native", "musl"):
            (scratch / "build" / flavour).symlink_to(build)

    def run(self, *options):
        code = ("import pathlib, sys, tap; tool = tap.load_tool('install'); "
                "tool.ROOT = pathlib.Path(sys.argv.pop(1)); tool.main()")
        return subprocess.run(
            [sys.executable, "-c", code, self.scratch, f"--destdir={self.destdir}",
             f"--prefix={self.prefix}", *options], cwd=pathlib.Path(__file__).parent,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


def uninstall_removes_what_install_put_there():
    """And nothing of others, also when something was installed twice."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Installation(pathlib.Path(scratch).resolve())
        (made.root / "share/opensandbox").mkdir(parents=True)
        (made.root / "share/opensandbox/mine").touch()
        before = made.files()
        for _ in range(2):
            done = made.run()
            assert done.returncode == 0, done.stdout
        for name in ("sbin/opensandbox-server", "lib/systemd/system/opensandbox-broker.service",
                     "share/doc/opensandbox/docs/config.md", "share/doc/opensandbox/README.md",
                     "share/opensandbox/images/code-interpreter/build",
                     "share/opensandbox/config.toml",
                     "share/opensandbox/grafana/opensandbox.json",
                     "share/opensandbox/prometheus/alerts.yaml"):
            assert (made.root / name).is_file(), name
        assert os.access(made.root / "share/opensandbox/images/code-interpreter/build", os.X_OK)
        done = made.run("--remove")
        assert done.returncode == 0 and made.files() == before, made.files() ^ before
        done = made.run("--remove")
        assert done.returncode == 1 and "nothing is installed" in done.stdout, done.stdout


def install_says_what_to_do_next():
    """The same lines as README.md has them."""
    tool = tap.load_tool("install")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in tool.next_steps("/usr/local").splitlines()
             if line.startswith("  ")]
    assert len(lines) == 4, lines
    for line in lines:
        assert f"\n{line.strip()}" in readme, line
    assert "/var/lib/opensandbox/server/api_key" in tool.NEXT


def exported():
    """{metric: {label: values}} of all our programs."""
    found = {name: dict(labels) for name, labels in OF_PROMETHEUS.items()}
    for program in METRICS_TEXTS:
        text = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True,
                              timeout=60).stdout
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert lines, f"{program} printed nothing"
        for line in lines:
            name, labels = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? \S+", line).groups()
            known = found.setdefault(name, {"job": set(), "instance": set()})
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels or ""):
                known.setdefault(label, set()).add(value)
    return found


MATCHERS = re.compile(r"([a-z_][a-z0-9_]*)\s*\{([^}]*)\}")
GROUPS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
WORDS = {"and", "or", "unless", "bool", "offset"}


def metrics_of(expr):
    """Names of metrics in an expression of PromQL, and the labels it groups by."""
    grouped = {label.strip() for labels in GROUPS.findall(expr) for label in labels.split(",")}
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", GROUPS.sub(" ", expr))
    names = set(re.findall(r"(?<![\w.])([a-zA-Z_]\w*)\b(?!\s*\()", bare))
    return names - WORDS, grouped


def check_expression(expr, known):
    names, grouped = metrics_of(expr)
    assert names, f"no metric in {expr}"
    assert names <= set(known), f"{names - set(known)} is exported by no program: {expr}"
    labels = set().union(*(known[name] for name in names))
    assert grouped <= labels, f"{grouped - labels} is a label of none of {names}"
    for name, matchers in MATCHERS.findall(expr):
        for label, how, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            assert label in known[name], f"{name} has no label {label}: {expr}"
            values = known[name][label]
            fits = any(re.fullmatch(value, v) for v in values) if "~" in how else value in values
            assert label in ("job", "instance") or fits, f"{name}: no {label} is {value}: {expr}"


def refuses(expr, known):
    try:
        check_expression(expr, known)
    except AssertionError:
        return True
    return False


def expressions_are_judged():
    """The check itself: what it lets pass, and what not."""
    known = exported()
    check_expression('sum by (state) (opensandbox_sandboxes{state="Running"})', known)
    for wrong in ("rate(opensandbox_sandboxs[5m])", 'opensandbox_sandboxes{status="Running"}',
                  'opensandbox_sandboxes{state="running"}', "sum by (route) (ingress_connections)",
                  "opensandbox_connections / ingress_connection", "sum(1)"):
        assert refuses(wrong, known), wrong


def the_dashboard_shows_what_is_exported():
    dashboard, known = json.loads(DASHBOARD.read_text(encoding="utf-8")), exported()
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels), "an id occurs twice"
    shown = set()
    for panel in panels:
        assert panel["title"], panel
        if panel["type"] == "row":
            continue
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            check_expression(target["expr"], known)
            labels = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            names = metrics_of(target["expr"])[0]
            assert all(label in known[name] for label in labels for name in names), target
            shown |= names
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert inner[2] in known[inner[1]], variable
    for prefix in ("opensandbox_sandboxes", "opensandbox_egress_", "ingress_",
                   "opensandbox_operator_"):
        assert any(name.startswith(prefix) for name in shown), f"nothing of {prefix}"


def the_alerts_watch_what_is_exported():
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    known, names = exported(), []
    for group in groups:
        for rule in group["rules"]:
            check_expression(rule["expr"], known)
            assert rule["labels"]["severity"] in ("critical", "warning"), rule
            assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule
            names.append(rule["alert"])
    assert len(names) > 10 and len(set(names)) == len(names), names


def systemd_understands_the_units():
    """Programs and accounts that are not installed here are replaced by some that are."""
    if not shutil.which("systemd-analyze"):
        raise tap.Skip("there is no systemd-analyze")
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for path in UNITS:
            text = re.sub(r"/\S+/(opensandbox-\w+|execd)\b", "/bin/true",
                          path.read_text(encoding="utf-8"))
            text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE)
            paths.append(pathlib.Path(scratch, path.name))
            paths[-1].write_text(text, encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                               *paths], check=False, capture_output=True, text=True, timeout=240)
    complaints = [line for line in done.stderr.splitlines() if "opensandbox" in line]
    assert not complaints, "\n".join(complaints)


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        the_broker_keeps_what_it_asks_for,
        the_server_has_no_privilege,
        the_account_is_the_one_the_units_name,
        uninstall_removes_what_install_put_there,
        install_says_what_to_do_next,
        expressions_are_judged,
        the_dashboard_shows_what_is_exported,
        the_alerts_watch_what_is_exported,
        systemd_understands_the_units,
    ]))
