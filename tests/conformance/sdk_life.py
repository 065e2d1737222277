"""sdk_life.py - what programs do with sandboxes as such: from creating them to killing them."""
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

from opensandbox.exceptions import (SandboxApiException, SandboxException,
                                    SandboxReadyTimeoutException)
from opensandbox.models import sandboxes as models
from opensandbox.models.sandboxes import SandboxFilter

from sdk_client import SECONDS_MAX, discard, done, raises
from sdk_commands import await_file, run, until

UNKNOWN = "00000000-0000-4000-8000-000000000000"
CONCURRENT = 8


async def is_killed(sandbox, command):
    """The kernel kills either the process alone or the whole sandbox."""
    try:
        return (await run(sandbox, command)).exit_code != 0
    except SandboxException:
        return True


async def create_takes_env_metadata_timeout_and_resource(client):
    sandbox = await client.create(
        "python:3.11", env={"GREETING": "hello world", "EMPTY": ""},
        metadata={"team": "blue", "example.com/stage": "test"}, timeout=timedelta(minutes=5),
        resource={"cpu": "500m", "memory": "256Mi"}, entrypoint=["sleep", "infinity"])
    try:
        info = await done(sandbox.get_info())
        assert info.id == sandbox.id and info.status.state == "Running", info
        assert info.image.image == "python:3.11" and info.entrypoint == ["sleep", "infinity"]
        assert info.metadata == {"team": "blue", "example.com/stage": "test"}, info
        assert info.expires_at - info.created_at == timedelta(minutes=5), info
        assert abs(info.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1), info

        result = await run(sandbox,
                           'echo "$GREETING[$EMPTY]"; until pgrep -xa sleep; do :; done')
        assert result.logs.stdout[0].text == "hello world[]", result
        assert result.logs.stdout[1].text.endswith("sleep infinity"), result
        metrics = await done(sandbox.get_metrics())
        assert metrics.memory_total_in_mib == 256, metrics
        assert await is_killed(sandbox, "python3 -c 'len(bytearray(500 << 20))'")
    finally:
        await discard(sandbox)


async def create_without_timeout_never_expires(client):
    sandbox = await client.create(timeout=None)
    try:
        assert (await done(sandbox.get_info())).expires_at is None
        error = await raises(SandboxApiException, lambda: sandbox.renew(timedelta(minutes=5)))
        assert (error.status_code, error.error.code) == (409, "DOCKER::INVALID_EXPIRATION"), error
    finally:
        await discard(sandbox)


async def create_refuses_what_is_wrong(client):
    for fields, status, code in (
            ({"metadata": {"not a key": "x"}}, 400, "SANDBOX::INVALID_METADATA_LABEL"),
            ({"metadata": {"opensandbox.io/id": "x"}}, 400, "SANDBOX::INVALID_METADATA_LABEL"),
            ({"metadata": {"key": "no value is like this"}}, 400,
             "SANDBOX::INVALID_METADATA_LABEL"),
            ({"timeout": timedelta(seconds=5)}, 400, "SANDBOX::INVALID_PARAMETER"),
            ({"resource": {"cpu": "many"}}, 400, "SANDBOX::INVALID_PARAMETER")):
        error = await raises(SandboxApiException, lambda f=fields: client.create(**f))
        assert (error.status_code, error.error.code) == (status, code), (fields, error)
        assert error.error.message and error.request_id, error
    error = await raises(SandboxApiException, lambda: client.create("no/such-image:1"))
    assert error.status_code == 500, error
    assert error.error.code == "DOCKER::SANDBOX_IMAGE_PULL_FAILED", error
    assert "no/such-image:1" in error.error.message, error
    manager = await client.manager()
    found = await done(manager.list_sandbox_infos(SandboxFilter(metadata={"key": "x"})))
    assert found.sandbox_infos == [], found
    await done(manager.close())


async def an_entrypoint_that_cannot_run_is_a_failure(client):
    """The create says so at once, and no client waits for a health check."""
    error = await raises(SandboxApiException,
                         lambda: client.create(entrypoint=["/no/such/program"]))
    assert (error.status_code, error.error.code) == (400, "DOCKER::INVALID_ENTRYPOINT"), error
    assert "/no/such/program" in error.error.message, error


async def create_that_is_never_ready_leaves_nothing(client):
    async def never_async(_):
        return False
    await raises(SandboxReadyTimeoutException, lambda: client.create(
        health_check=never_async if client.is_async else lambda _: False,
        metadata={"case": "never-ready"}, ready_timeout=timedelta(seconds=1)))
    manager = await client.manager()
    found = await done(manager.list_sandbox_infos(SandboxFilter(metadata={"case": "never-ready"})))
    assert found.sandbox_infos == [], found
    await done(manager.close())


async def an_unknown_id_is_404_with_code_and_request_id(client):
    manager = await client.manager(headers={"X-Request-ID": "my-own-request"})
    try:
        for call in (lambda: manager.get_sandbox_info(UNKNOWN),
                     lambda: manager.kill_sandbox(UNKNOWN),
                     lambda: manager.pause_sandbox(UNKNOWN),
                     lambda: manager.resume_sandbox(UNKNOWN),
                     lambda: manager.patch_sandbox_metadata(UNKNOWN, {"a": "b"}),
                     lambda: manager.renew_sandbox(UNKNOWN, timedelta(minutes=5))):
            error = await raises(SandboxApiException, call)
            assert error.status_code == 404, error
            assert error.error.code == "DOCKER::SANDBOX_NOT_FOUND", error
            assert error.request_id == "my-own-request", error
    finally:
        await done(manager.close())
    error = await raises(SandboxApiException, lambda: client.connect(UNKNOWN))
    assert error.status_code == 404, error


async def a_wrong_key_is_401(client):
    for key, code in (("not the key", "INVALID_API_KEY"), ("", "MISSING_API_KEY")):
        manager = await client.manager(api_key=key)
        error = await raises(SandboxApiException,
                             lambda m=manager: m.list_sandbox_infos(SandboxFilter()))
        assert (error.status_code, error.error.code) == (401, code), error
        await done(manager.close())


async def renew_moves_the_expiry(client):
    sandbox = await client.create()
    try:
        for minutes in (30, 2):  # later, and also sooner
            begin = datetime.now(timezone.utc)
            answer = await done(sandbox.renew(timedelta(minutes=minutes)))
            info = await done(sandbox.get_info())
            since = info.expires_at - timedelta(minutes=minutes)
            slack = timedelta(seconds=1)
            assert begin - slack < since < datetime.now(timezone.utc) + slack, (info, begin)
            assert abs(answer.expires_at - info.expires_at) < timedelta(milliseconds=1), answer
    finally:
        await discard(sandbox)


async def a_sandbox_expires(client):
    sandbox = await client.create()
    for seconds in (1, 10, 60):  # more where those are over before they begin
        try:
            await done(sandbox.renew(timedelta(seconds=seconds)))
            break
        except SandboxApiException as error:
            assert error.status_code == 400, error

    async def gone():
        try:
            info = await done(sandbox.get_info())
            return info.status.state == "Terminated"
        except SandboxApiException as error:
            return error.status_code == 404
    await until("its expiry", gone)
    await done(sandbox.close())


async def pause_freezes_and_resume_thaws(client):
    sandbox = await client.create()
    try:
        await run(sandbox, "while :; do date +%s%N > /tmp/now; sleep 0.02; done", background=True)
        await done(sandbox.files.write_file("/tmp/kept", "kept"))
        await done(sandbox.pause())

        async def state_is(state):
            return (await done(sandbox.get_info())).status.state == state
        await until("Paused", lambda: state_is("Paused"))
        paused_at = time.time_ns()
        error = await raises(SandboxApiException, sandbox.pause)
        assert (error.status_code, error.error.code) == (409, "DOCKER::SANDBOX_NOT_RUNNING"), error
        assert not await done(sandbox.is_healthy())
        time.sleep(0.5)

        resumed = await done(client.Sandbox.resume(sandbox.id, connection_config=client.config()))
        await until("Running", lambda: state_is("Running"))
        assert resumed.id == sandbox.id and await done(resumed.is_healthy())
        assert await done(resumed.files.read_file("/tmp/kept")) == "kept"

        async def goes_on():
            text = (await run(resumed, "cat /tmp/now")).text
            return text and int(text) > paused_at + 400_000_000
        await until("the loop to go on", goes_on)
        await done(resumed.close())
        error = await raises(SandboxApiException,
                             lambda: client.Sandbox.resume(sandbox.id,
                                                           connection_config=client.config()))
        assert (error.status_code, error.error.code) == (409, "DOCKER::SANDBOX_NOT_PAUSED"), error
    finally:
        await discard(sandbox)


async def connect_finds_a_sandbox_again(client):
    sandbox = await client.create(env={"WHO": "first"})
    try:
        await done(sandbox.files.write_file("/tmp/mark", "mine"))
        other = await client.connect(sandbox.id)
        assert other.id == sandbox.id and await done(other.is_healthy())
        assert (await run(other, 'echo "$WHO $(cat /tmp/mark)"')).text == "first mine"
        await done(other.close())
        assert await done(sandbox.is_healthy())  # closing ends the client, not the sandbox
    finally:
        await discard(sandbox)


async def the_server_proxy_serves_all_calls(client):
    sandbox = await client.create(connection_config=client.config(use_server_proxy=True))
    try:
        await done(sandbox.files.write_file("/tmp/x", b"through the proxy"))
        assert await done(sandbox.files.read_file("/tmp/x")) == "through the proxy"
        assert (await run(sandbox, "wc -c < /tmp/x")).text.strip() == "17"
        assert "/proxy/" in (await done(sandbox.get_endpoint(8000))).endpoint
    finally:
        await discard(sandbox)


async def the_manager_lists_by_state_metadata_and_page(client):
    manager = await client.manager()
    sandboxes = []
    try:
        for n in range(5):
            sandboxes.append(await client.create(
                metadata={"list": "yes", "kind": "even" if n % 2 == 0 else "odd"}))
        await done(manager.pause_sandbox(sandboxes[1].id))

        async def listed(**filters):
            page = await done(manager.list_sandbox_infos(SandboxFilter(**filters)))
            return [info.id for info in page.sandbox_infos], page.pagination

        ids, pagination = await listed(metadata={"list": "yes"})
        assert ids == [sandbox.id for sandbox in reversed(sandboxes)], ids
        assert pagination.total_items == 5 and not pagination.has_next_page, pagination
        ids, _ = await listed(metadata={"list": "yes", "kind": "odd"})
        assert ids == [sandboxes[3].id, sandboxes[1].id], ids
        ids, _ = await listed(metadata={"list": "yes"}, states=["Paused"])
        assert ids == [sandboxes[1].id], ids
        ids, _ = await listed(metadata={"list": "yes"}, states=["Paused", "Running"])
        assert len(ids) == 5, ids

        seen = []
        for number in (1, 2, 3):
            ids, pagination = await listed(metadata={"list": "yes"}, page=number, page_size=2)
            seen += ids
            assert (pagination.page, pagination.page_size) == (number, 2), pagination
            assert (pagination.total_pages, pagination.has_next_page) == (3, number < 3)
        assert sorted(seen) == sorted(sandbox.id for sandbox in sandboxes), seen
        ids, _ = await listed(metadata={"list": "no"})
        assert ids == [], ids
    finally:
        for sandbox in sandboxes:
            await done(manager.kill_sandbox(sandbox.id))
            await done(sandbox.close())
        await done(manager.close())


async def the_manager_does_all_a_sandbox_can(client):
    manager = await client.manager()
    sandbox = await client.create()
    try:
        info = await done(manager.get_sandbox_info(sandbox.id))
        assert info.id == sandbox.id and info.image.image == "host", info
        answer = await done(manager.renew_sandbox(sandbox.id, timedelta(minutes=20)))
        assert answer.expires_at > info.expires_at, answer
        await done(manager.pause_sandbox(sandbox.id))
        await done(manager.resume_sandbox(sandbox.id))
        await done(manager.kill_sandbox(sandbox.id))
        error = await raises(SandboxApiException, lambda: manager.get_sandbox_info(sandbox.id))
        assert error.status_code == 404, error
    finally:
        await done(sandbox.close())
        await done(manager.close())


async def metadata_is_patched(client):
    sandbox = await client.create(metadata={"keep": "1", "change": "1", "drop": "1"})
    try:
        info = await done(sandbox.patch_metadata({"change": "2", "drop": None, "new": "3"}))
        assert info.metadata == {"keep": "1", "change": "2", "new": "3"}, info
        assert (await done(sandbox.get_info())).metadata == info.metadata
        error = await raises(SandboxApiException, lambda: sandbox.patch_metadata({"a b": "c"}))
        assert error.status_code == 400, error
        assert (await done(sandbox.get_info())).metadata == info.metadata
    finally:
        await discard(sandbox)


async def an_endpoint_reaches_a_web_server_inside(client):
    sandbox = await client.create()
    try:
        await done(sandbox.files.write_file("/srv/www/index.html", "<h1>from inside</h1>"))
        await run(sandbox, "python3 -m http.server 8000 --directory /srv/www", background=True)
        endpoint = await done(sandbox.get_endpoint(8000))

        def fetch(path, headers):
            request = urllib.request.Request(f"http://{endpoint.endpoint}{path}", headers=headers)
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as reply:
                return reply.status, reply.read().decode()

        async def answers():
            try:
                return fetch("/index.html", endpoint.headers)
            except OSError:
                return None
        assert await until("the web server", answers) == (200, "<h1>from inside</h1>")
        try:
            fetch("/not-there", endpoint.headers)
            raise AssertionError("found what is not there")
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
        try:
            fetch("/index.html", {})
            raise AssertionError("let in without the endpoint's headers")
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
    finally:
        await discard(sandbox)


async def metrics_are_those_of_the_sandbox(client):
    sandbox = await client.create(resource={"cpu": "1", "memory": "300Mi"})
    try:
        metrics = await done(sandbox.get_metrics())
        assert metrics.memory_total_in_mib == 300, metrics
        assert 0 < metrics.memory_used_in_mib < 300, metrics
        assert metrics.cpu_count >= 1 and 0 <= metrics.cpu_used_percentage <= 100 * 64, metrics
        assert abs(metrics.timestamp / 1000 - time.time()) < 60, metrics
    finally:
        await discard(sandbox)


async def diagnostics_tell_of_log_and_life(client):
    sandbox = await client.create(entrypoint=["sh", "-c", "echo said at start; sleep infinity"])
    try:
        async def logged():
            content = await done(sandbox.get_diagnostic_logs("container"))
            return content if "said at start" in (content.content or "") else None
        content = await until("the log", logged)
        assert (content.sandbox_id, content.kind) == (sandbox.id, "logs"), content
        content = await done(sandbox.get_diagnostic_events("lifecycle"))
        assert "Running" in content.content, content
    finally:
        await discard(sandbox)


async def volumes_are_shared_and_refused_by_code(client):
    """Host paths and object storage need what this server lacks: the codes come through."""
    if not hasattr(models, "Volume"):
        return  # an older release has none

    def volume(**kind):
        return [models.Volume(name="v", mountPath="/data", **kind)]

    claim = volume(pvc=models.PVC(claimName="of-the-sdk", deleteOnSandboxTermination=True))
    one = await client.create(volumes=claim)
    two = await client.create(volumes=[claim[0].model_copy(update={"read_only": True})])
    try:
        await run(one, "echo shared >/data/f")
        result = await run(two, "cat /data/f; touch /data/g || echo refused")
        assert [line.text for line in result.logs.stdout] == ["shared", "refused"], result
    finally:
        await discard(one)
        await discard(two)
    key = {"accessKeyId": "id", "accessKeySecret": "secret"}
    rows = [
        (volume(host=models.Host(path="/etc")), "VOLUME::HOST_PATH_NOT_ALLOWED"),
        (volume(ossfs=models.OSSFS(bucket="bucket", endpoint="http://127.0.0.1:9", **key)),
         "VOLUME::INVALID_OSSFS_ENDPOINT"),
    ]
    for volumes, code in rows:
        error = await raises(SandboxApiException,
                             lambda volumes=volumes: client.create(volumes=volumes))
        assert (error.status_code, error.error.code) == (400, code), error


async def concurrent_sandboxes_do_not_mix(client):
    async def one(n):
        sandbox = await client.create(env={"NUMBER": str(n)})
        try:
            await done(sandbox.files.write_file("/tmp/n", str(n)))
            result = await run(sandbox, "sleep 0.2; echo $NUMBER $(cat /tmp/n)")
            assert result.text == f"{n} {n}", result
            return sandbox.id
        finally:
            await discard(sandbox)
    ids = await client.gather([lambda n=n: one(n) for n in range(CONCURRENT)])
    assert len(set(ids)) == CONCURRENT, ids


async def concurrent_calls_share_a_sandbox(client):
    sandbox = await client.create()

    async def one(n):  # each waits for all others
        all_there = "; ".join(await_file(f"/tmp/at{i}") for i in range(16))
        result = await run(sandbox, f"echo {n}; touch /tmp/at{n}; {all_there}; echo {n}")
        assert result.text == f"{n}\n{n}", result
    try:
        await client.gather([lambda n=n: one(n) for n in range(16)])
    finally:
        await discard(sandbox)


async def kill_ends_it_for_good(client):
    sandbox = await client.create()
    assert await done(sandbox.is_healthy())
    await done(sandbox.kill())
    error = await raises(SandboxApiException, sandbox.get_info)
    assert (error.status_code, error.error.code) == (404, "DOCKER::SANDBOX_NOT_FOUND"), error
    assert not await done(sandbox.is_healthy())
    # The token of a removed sandbox is invalid: 401, so the gateway does not reveal which ids
    # exist.
    error = await raises(SandboxApiException, lambda: run(sandbox, "echo x"))
    assert error.status_code == 401, error
    error = await raises(SandboxApiException, sandbox.kill)
    assert error.status_code == 404, error
    await done(sandbox.close())


TESTS = [
    create_takes_env_metadata_timeout_and_resource,
    create_without_timeout_never_expires,
    create_refuses_what_is_wrong,
    an_entrypoint_that_cannot_run_is_a_failure,
    create_that_is_never_ready_leaves_nothing,
    an_unknown_id_is_404_with_code_and_request_id,
    a_wrong_key_is_401,
    renew_moves_the_expiry,
    a_sandbox_expires,
    pause_freezes_and_resume_thaws,
    connect_finds_a_sandbox_again,
    the_server_proxy_serves_all_calls,
    the_manager_lists_by_state_metadata_and_page,
    the_manager_does_all_a_sandbox_can,
    metadata_is_patched,
    an_endpoint_reaches_a_web_server_inside,
    metrics_are_those_of_the_sandbox,
    diagnostics_tell_of_log_and_life,
    volumes_are_shared_and_refused_by_code,
    concurrent_sandboxes_do_not_mix,
    concurrent_calls_share_a_sandbox,
    kill_ends_it_for_good,
]
