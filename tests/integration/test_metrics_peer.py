#!/usr/bin/env python3
"""Reads the text of our metrics with Prometheus's own Python library.

usage: test_metrics_peer.py METRICS_TEXT
"""
import pathlib
import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap  # noqa: E402

text = subprocess.run(sys.argv[1:2], check=True, capture_output=True, text=True).stdout
families = {family.name: family for family in text_string_to_metric_families(text)}


def value(family, sample, **labels):
    found = [s.value for s in families["opensandbox_" + family].samples
             if s.name == "opensandbox_" + sample and s.labels == labels]
    assert len(found) == 1, f"{sample} {labels}: {found}"
    return found[0]


def every_family_is_ours_and_described():
    assert len(families) > 10
    for family in families.values():
        assert family.name.startswith("opensandbox_"), family.name
        assert family.type in ("counter", "gauge", "histogram"), family
        assert family.documentation.endswith("."), family
        assert family.samples, f"{family.name} has no value"


def no_series_occurs_twice():
    lines = [line.rsplit(" ", 1)[0] for line in text.splitlines()]
    assert len(lines) == len(set(lines))
    assert text.endswith("\n")


def values_arrive():
    assert value("sandboxes", "sandboxes", state="Running") == 2
    assert value("loop_lag_seconds", "loop_lag_seconds") == 0.0015
    assert value("http_requests", "http_requests_total",
                 route="/v1/sandboxes", method="GET", status="2xx") == 100
    assert value("resident_memory_bytes", "resident_memory_bytes") > 4096


def histograms_add_up():
    creations = "sandbox_create_duration_seconds"
    assert value(creations, creations + "_bucket", le="0.01") == 10
    assert value(creations, creations + "_bucket", le="+Inf") == 100
    assert value(creations, creations + "_count") == 100
    assert abs(value(creations, creations + "_sum") - 5.05) < 1e-9
    for family in families.values():
        if family.type != "histogram":
            continue
        seen = {}
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                continue
            key = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
            bound = float(sample.labels["le"])
            last = seen.get(key, (-1.0, 0.0))
            assert bound > last[0] and sample.value >= last[1], sample
            seen[key] = (bound, sample.value)
        assert seen and all(bound == float("inf") for bound, _ in seen.values())


if __name__ == "__main__":
    sys.exit(tap.run_tests([
        every_family_is_ours_and_described,
        no_series_occurs_twice,
        values_arrive,
        histograms_add_up,
    ]))
