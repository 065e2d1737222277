"""Requests made of arguments and models: bodies without nulls and without what was not given."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

from opensandbox._core.errors import need_text
from opensandbox._core.wire import CreateSandboxRequest, RunCommandRequest
from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import (
    Credential,
    CredentialBinding,
    CredentialProxyConfig,
    NetworkPolicy,
    PlatformSpec,
    SandboxImageSpec,
    SandboxLifecycle,
    Secret,
    Volume,
)

DEFAULT_ENTRYPOINT = ["tail", "-f", "/dev/null"]
DEFAULT_RESOURCE = {"cpu": "1", "memory": "2Gi"}


def segment(value: str) -> str:
    """A part of a path."""
    return quote(value, safe="")


def dense(**members: Any) -> dict[str, Any]:
    """The members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def network_policy(policy: NetworkPolicy) -> dict[str, Any]:
    rules = None
    if policy.egress:
        rules = [{"action": rule.action, "target": rule.target} for rule in policy.egress]
    return dense(defaultAction=policy.default_action, egress=rules)


def volume(value: Volume) -> dict[str, Any]:
    out = dense(name=value.name, mountPath=value.mount_path, subPath=value.sub_path)
    if value.read_only:
        out["readOnly"] = True
    if value.host:
        out["host"] = {"path": value.host.path}
    if value.pvc:
        out["pvc"] = dense(
            claimName=value.pvc.claim_name,
            createIfNotExists=None if value.pvc.create_if_not_exists else False,
            deleteOnSandboxTermination=value.pvc.delete_on_sandbox_termination or None,
            storageClass=value.pvc.storage_class,
            storage=value.pvc.storage,
            accessModes=value.pvc.access_modes,
        )
    if value.ossfs:
        out["ossfs"] = dense(
            bucket=value.ossfs.bucket,
            endpoint=value.ossfs.endpoint,
            version=value.ossfs.version if value.ossfs.version != "2.0" else None,
            options=value.ossfs.options,
            accessKeyId=value.ossfs.access_key_id,
            accessKeySecret=value.ossfs.access_key_secret,
        )
    return out


def lifecycle(value: SandboxLifecycle) -> dict[str, Any]:
    def hook(one: Any) -> dict[str, Any]:
        return dense(
            name=getattr(one, "name", None),
            schedule=getattr(one, "schedule", None),
            command=one.command,
            timeoutSeconds=one.timeout_seconds,
        )

    return dense(
        preStart=hook(value.pre_start) if value.pre_start else None,
        periodic=[hook(one) for one in value.periodic] if value.periodic else None,
    )


def image(spec: SandboxImageSpec | str | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    if isinstance(spec, str):
        return {"uri": need_text(spec, "image")}
    auth = None
    if spec.auth:
        auth = {"username": spec.auth.username, "password": spec.auth.password}
    return dense(uri=spec.image, auth=auth)


def seconds(value: timedelta | None) -> int | None:
    return None if value is None else int(value.total_seconds())


def create_sandbox(
    spec: SandboxImageSpec | str | None,
    snapshot_id: str | None,
    entrypoint: list[str] | None,
    env: dict[str, str] | None,
    metadata: dict[str, str] | None,
    timeout: timedelta | None,
    resource: dict[str, str] | None,
    resource_requests: dict[str, str] | None,
    policy: NetworkPolicy | None,
    credential_proxy: CredentialProxyConfig | None,
    extensions: dict[str, str] | None,
    volumes: list[Volume] | None,
    platform: PlatformSpec | None,
    secure_access: bool,
    hooks: SandboxLifecycle | None,
    secret_env: dict[str, Secret] | None = None,
) -> CreateSandboxRequest:
    """The body of POST /sandboxes."""
    if (spec is None) == (snapshot_id is None):
        raise InvalidArgumentException("exactly one of image and snapshot_id is needed")
    if snapshot_id is not None:
        need_text(snapshot_id, "snapshot_id")
    elif not entrypoint:
        entrypoint = DEFAULT_ENTRYPOINT
    body: dict[str, Any] = dense(
        image=image(spec),
        snapshotId=snapshot_id,
        timeout=seconds(timeout),
        entrypoint=entrypoint or None,
        resourceLimits=resource or DEFAULT_RESOURCE,
        resourceRequests=resource_requests or None,
        env=env or None,
        metadata=metadata or None,
        extensions=extensions or None,
        platform={"os": platform.os, "arch": platform.arch} if platform else None,
        networkPolicy=network_policy(policy) if policy else None,
        credentialProxy={"enabled": credential_proxy.enabled} if credential_proxy else None,
        volumes=[volume(one) for one in volumes] if volumes else None,
        secureAccess=True if secure_access else None,
        lifecycle=lifecycle(hooks) if hooks else None,
        secretEnv={k: {"value": s.value, "hosts": s.hosts} for k, s in secret_env.items()}
        if secret_env
        else None,
    )
    return body  # type: ignore[return-value]


def metadata_filter(metadata: dict[str, str] | None) -> str | None:
    """`k1=v1&k2=v2`, which is encoded once more as a value of the query."""
    if not metadata:
        return None
    return "&".join(f"{quote(k, safe='/')}={quote(v, safe='/')}" for k, v in metadata.items())


def expires_at(timeout: timedelta) -> dict[str, str]:
    """The body of a renewal, from now on."""
    if timeout.total_seconds() <= 0:
        raise InvalidArgumentException(f"the timeout must be positive, not {timeout}")
    when = datetime.now(timezone.utc) + timeout
    return {"expiresAt": when.isoformat().replace("+00:00", "Z")}


def run_command(command: str | list[str], opts: RunCommandOpts | None) -> RunCommandRequest:
    """The body of POST /command."""
    opts = opts or RunCommandOpts()
    body: dict[str, Any]
    if isinstance(command, str):
        body = {"command": need_text(command, "command")}
    elif command and all(isinstance(word, str) for word in command):
        body = {"argv": list(command)}
    else:
        raise InvalidArgumentException("command must be text or a list of words")
    body.update(
        dense(
            cwd=opts.working_directory,
            background=opts.background or None,
            timeout=milliseconds(opts.timeout),
            uid=opts.uid,
            gid=opts.gid,
            envs=opts.envs or None,
            stdin=opts.stdin,
            stdin_open=opts.stdin_open or None,
        )
    )
    return body  # type: ignore[return-value]


def milliseconds(value: timedelta | None) -> int | None:
    if value is None:
        return None
    if value.total_seconds() < 0:
        raise InvalidArgumentException(f"a timeout must not be negative: {value}")
    return int(value.total_seconds() * 1000)


def credential(value: Credential | dict[str, Any]) -> dict[str, Any]:
    value = Credential.model_validate(value) if isinstance(value, dict) else value
    return {"name": value.name, "source": {"type": "inline", "value": value.source.value}}


def binding(value: CredentialBinding | dict[str, Any]) -> dict[str, Any]:
    value = CredentialBinding.model_validate(value) if isinstance(value, dict) else value
    auth = value.auth.model_dump(exclude_none=True)
    for one in auth.get("substitutions", []):
        one["in"] = one.pop("in_")
    return {"name": value.name, "match": value.match.model_dump(exclude_none=True), "auth": auth}


def mutation(value: Any, convert: Any) -> dict[str, Any] | None:
    """add, replace and delete of a vault patch."""
    if value is None:
        return None
    given = value if isinstance(value, dict) else dict(value)
    add, replace, delete = (given.get(name) or [] for name in ("add", "replace", "delete"))
    return dense(
        add=[convert(one) for one in add] or None,
        replace=[convert(one) for one in replace] or None,
        delete=list(delete) or None,
    )


def wait_text(info: Any) -> str:
    """Why a sandbox or a snapshot is in its state."""
    status = info.status
    parts = [part for part in (status.reason, status.message) if part]
    return f"{info.id} is {status.state}" + (": " + ": ".join(parts) if parts else "")
