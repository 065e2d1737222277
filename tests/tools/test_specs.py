#!/usr/bin/env python3
"""test_specs.py EXECD SERVER - the documents in specs/ are valid, whole, and what programs serve.

The programs are asked with --print-routes. Needs openapi-spec-validator, which brings jsonschema.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema
import openapi_spec_validator
import yaml

import tap

SPECS = tap.ROOT / "specs"
METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
EXECD_V1 = (" /v1/filesystem/", " /v1/isolated/")  # which has no routes without it
embed = tap.load_tool("embed")


class Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which YAML would silently keep the last."""

    def construct_mapping(self, node, deep=False):
        own = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {name for name in own if own.count(name) > 1}
        assert not twice, f"{node.start_mark}: {twice} twice"
        return super().construct_mapping(node, deep)


def load(name):
    return yaml.load((SPECS / name).read_text(encoding="utf-8"), Loader)


CATALOGUE = load("errors.yaml")
DOCUMENTS = {name: load(name) for name in ("lifecycle.yaml", "execd.yaml")}


def resolve(document, node):
    while "$ref" in node:
        at = document
        for key in node["$ref"][2:].split("/"):
            at = at[key]
        node = at
    return node


def operations(document):
    """(operationId or its place, path item, operation) of each."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                yield operation.get("operationId", f"{method} {path}"), item, operation


def parameters(document, item, operation):
    for parameter in item.get("parameters", []) + operation.get("parameters", []):
        yield resolve(document, parameter)


def media_of(document):
    """(where, media type object) of every body and answer."""
    for name, _, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for kind, media in resolve(document, body).get("content", {}).items():
                yield f"{name} {kind}", media


def examples(document):
    """(where, schema, value) of every example."""
    for where, media in media_of(document):
        for example in media.get("examples", {}).values():
            yield where, media["schema"], example["value"]
    for name, item, operation in operations(document):
        for parameter in parameters(document, item, operation):
            for example in parameter.get("examples", {}).values():
                yield f"{name} {parameter['name']}", parameter["schema"], example["value"]
    for name, schema in document["components"]["schemas"].items():
        for value in schema.get("examples", []):
            yield name, {"$ref": f"#/components/schemas/{name}"}, value


def schema_problem(document, schema, value):
    """What is wrong with the value, or None. References lead into the document."""
    rooted = {"allOf": [schema], "components": document["components"]}
    checker = jsonschema.Draft202012Validator(
        rooted, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    error = jsonschema.exceptions.best_match(checker.iter_errors(value))
    return error and f"{'/'.join(map(str, error.path))}: {error.message}"


def codes_used(document):
    """(where, code) of each code that an answer names."""
    for name, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            for code in resolve(document, answer).get("x-codes", []):
                yield f"{name} {status}", code


def anonymous(row):
    """A row without the names of its parameters, which no client sees."""
    return re.sub(r"\{\w+\}", "{}", row)


def routes_of(document):
    """The rows a program should have: what the server has below /v1 stands there twice."""
    for path, item in document["paths"].items():
        rows = item.get("x-route") or \
            [f"{method.upper()} {path}" for method in METHODS if method in item]
        rows = [rows] if isinstance(rows, str) else rows
        for row in map(anonymous, rows):
            yield row
            if " /v1/" in row and not any(part in row for part in EXECD_V1):
                yield row.replace(" /v1/", " /", 1)


def printed_routes(program):
    if not os.path.exists(program):
        raise tap.Skip(f"{os.path.basename(program)} is not built here")
    done = subprocess.run([program, "--print-routes"], check=True, stdout=subprocess.PIPE,
                          text=True)
    return [anonymous(row) for row in done.stdout.splitlines()]


def refers_to_error(media):
    return media["schema"].get("$ref") == "#/components/schemas/Error"


def expect_none(problems):
    assert not problems, "\n" + "\n".join(problems)


def each_document(check):
    """Runs a check that yields problems on every document."""
    def test():
        expect_none([f"{name}: {problem}" for name, document in DOCUMENTS.items()
                     for problem in check(document)])

    test.__name__ = check.__name__
    return test


def every_document_is_valid():
    for document in DOCUMENTS.values():
        openapi_spec_validator.validate(document)


@each_document
def every_example_fits_its_schema(document):
    found = list(examples(document))
    assert len(found) > 10, "the examples were not found"
    for where, schema, value in found:
        problem = schema_problem(document, schema, value)
        if problem:
            yield f"{where}: {problem}"


@each_document
def every_schema_is_itself_valid(document):
    for name, schema in document["components"]["schemas"].items():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            yield f"{name}: {error.message}"


@each_document
def every_operation_is_described(document):
    tags = {tag["name"] for tag in document["tags"]}
    names = [name for name, _, _ in operations(document)]
    yield from (f"{name} twice" for name in names if names.count(name) > 1)
    for name, _, operation in operations(document):
        if not operation.get("summary") or not operation.get("operationId"):
            yield f"{name}: no summary or no id"
        if len(operation.get("tags", [])) != 1 or not set(operation["tags"]) <= tags:
            yield f"{name}: not exactly one known tag"


@each_document
def every_parameter_of_a_path_is_declared(document):
    for path, item in document["paths"].items():
        for name, own, operation in operations({"paths": {path: item}}):
            declared = {p["name"] for p in parameters(document, own, operation)
                        if p["in"] == "path"}
            if declared != set(re.findall(r"\{(\w+)\}", path)):
                yield f"{name}: declares {sorted(declared)}"


@each_document
def every_error_has_a_body_and_codes(document):
    for name, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            own = resolve(document, answer)
            if status[0] in "45" and status != "412":
                content = own.get("content", {})
                if "101" in operation["responses"] and list(content) == ["text/plain"]:
                    continue  # clients know a handshake's refusal as text
                media = content.get("application/json")
                if not media and "*/*" not in content:  # the latter: a program inside may answer
                    yield f"{name} {status}: no JSON body"
                elif media and refers_to_error(media) and not own.get("x-codes"):
                    yield f"{name} {status}: no codes"


@each_document
def every_expected_error_is_listed(document):
    """A key can be wrong wherever one is needed; a body can be wrong and too large."""
    for name, _, operation in operations(document):
        expected = set()
        if operation.get("security", document.get("security", [])):
            expected.add("401")
        if "requestBody" in operation:
            expected |= {"400", "413"}
        missing = expected - operation["responses"].keys()
        if missing:
            yield f"{name}: {sorted(missing)} not listed"


@each_document
def every_code_is_in_the_catalogue(document):
    found = list(codes_used(document))
    assert len(found) > 20, "the codes were not found"
    yield from (f"{where}: {code}" for where, code in found if code not in CATALOGUE)


def every_code_of_the_catalogue_is_used():
    used = {code for document in DOCUMENTS.values() for _, code in codes_used(document)}
    expect_none(sorted(CATALOGUE.keys() - used))
    expect_none([code for code in CATALOGUE
                 if not re.fullmatch(r"[A-Z][A-Z0-9_]*(::[A-Z][A-Z0-9_]*)?", code)])


def every_lifecycle_operation_is_below_v1_or_about_the_server():
    bare = {path for path in DOCUMENTS["lifecycle.yaml"]["paths"] if not path.startswith("/v1/")}
    assert bare == {"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs",
                    "/redoc", "/auth/login", "/auth/callback", "/auth/logout",
                    "/console", "/console/{path}", "/preview/{ticket}",
                    "/preview/{ticket}/{path}"}, bare


def routes_test(program, name):
    """The program serves what its document says, and nothing else."""
    def test():
        served, written = printed_routes(program), list(routes_of(DOCUMENTS[name]))
        expect_none([f"served, but not in {name}: {row}" for row in served if row not in written] +
                    [f"in {name}, but not served: {row}" for row in written if row not in served] +
                    [f"served twice: {row}" for row in set(served) if served.count(row) > 1])

    test.__name__ = f"{os.path.basename(program)} serves what {name} says"
    return test


def embedded_bytes_are_the_same_bytes():
    data = bytes(range(256)) + b"\"\\\n??/"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "x.h").write_text("#include <stddef.h>\nextern const char x[];\n"
                                    "extern const size_t x_len;\n")
        (folder / "x.c").write_text('#include "x.h"\n' + embed.define("x", data))
        (folder / "main.c").write_text(
            '#include <stdio.h>\n#include "x.h"\n'
            "int main(void) { return x[x_len] || fwrite(x, 1, x_len, stdout) != x_len; }\n")
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", "x", "x.c", "main.c"],
                       cwd=folder, check=True)
        assert subprocess.run([folder / "x"], check=True, stdout=subprocess.PIPE).stdout == data


def what_is_wrong_is_found():
    """The checks themselves: each can fail."""
    document = DOCUMENTS["lifecycle.yaml"]
    schema = {"$ref": "#/components/schemas/CreateSandboxRequest"}
    good = {"image": {"uri": "host"}, "entrypoint": ["sh"], "resourceLimits": {}}
    assert schema_problem(document, schema, {**good, "unknown": 1}) is None
    for wrong in ({"timeout": 59}, {"timeout": "60"}, {"entrypoint": []}, {"image": None},
                  {"snapshotId": "s"}, {"metadata": {"opensandbox.io/id": "x"}},
                  {"metadata": {"a b": "x"}}, {"resourceLimits": {"memory": "1.5Gi"}},
                  {"volumes": [{"name": "v", "mountPath": "/v"}]}):
        assert schema_problem(document, schema, {**good, **wrong}), wrong
    assert schema_problem(document, {"$ref": "#/components/schemas/Time"}, "2026-07-01 09:30:00Z")
    small = {"paths": {"/v1/{a}": {"get": {}}, "/b": {"x-route": "* /b/*", "get": {}, "put": {}}}}
    assert sorted(routes_of(small)) == ["* /b/*", "GET /v1/{}", "GET /{}"]


if __name__ == "__main__":
    execd, server = sys.argv[1:]
    sys.exit(tap.run_tests([
        every_document_is_valid,
        every_schema_is_itself_valid,
        every_example_fits_its_schema,
        every_operation_is_described,
        every_parameter_of_a_path_is_declared,
        every_error_has_a_body_and_codes,
        every_expected_error_is_listed,
        every_code_is_in_the_catalogue,
        every_code_of_the_catalogue_is_used,
        every_lifecycle_operation_is_below_v1_or_about_the_server,
        routes_test(execd, "execd.yaml"),
        routes_test(server, "lifecycle.yaml"),
        embedded_bytes_are_the_same_bytes,
        what_is_wrong_is_found,
    ]))
