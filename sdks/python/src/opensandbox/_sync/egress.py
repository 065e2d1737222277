# Written by tools/unasync from _async/egress.py. DO NOT EDIT.
"""The network policy of a sandbox and its credential vault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opensandbox._sync.http import Http
from opensandbox._sync.io import Returned
from opensandbox._sync.lifecycle import parsed
from opensandbox._core import convert
from opensandbox._core.convert import dense, segment
from opensandbox._core.errors import need_text
from opensandbox.models.sandboxes import (
    Credential,
    CredentialBinding,
    CredentialBindingListResponse,
    CredentialBindingMetadata,
    CredentialBindingMutationSet,
    CredentialListResponse,
    CredentialMetadata,
    CredentialMutationSet,
    CredentialVaultState,
    NetworkPolicy,
    NetworkRule,
)

VAULT = "/credential-vault"


class EgressSync:
    """Calls of the egress endpoint, which the first of them looks up."""

    def __init__(self, look_up: Callable[[], Returned[Http]]) -> None:
        self._look_up = look_up
        self._found: Http | None = None

    def _http(self) -> Http:
        if self._found is None:
            self._found = self._look_up()
        return self._found

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        return (self._http()).json(method, path, **options)

    def _tell(self, method: str, path: str, **options: Any) -> None:
        (self._http()).send(method, path, **options)

    # --- policy ---

    def get_policy(self) -> NetworkPolicy:
        """The policy in force."""
        answer = self._ask("GET", "/policy")
        policy: NetworkPolicy = parsed(NetworkPolicy, answer.get("policy") or {})
        return policy

    def patch_rules(self, rules: list[NetworkRule]) -> None:
        """Merges rules in: one replaces the rule with the same target."""
        body = [{"action": rule.action, "target": rule.target} for rule in rules]
        self._tell("PATCH", "/policy", body=body)

    def delete_rules(self, targets: list[str]) -> None:
        """Removes the rules of targets; unknown ones are ignored."""
        self._tell("DELETE", "/policy", body=[need_text(t, "target") for t in targets])

    # --- vault ---

    def create(
        self,
        *,
        credentials: list[Credential | dict[str, Any]] | list[Credential],
        bindings: list[CredentialBinding | dict[str, Any]] | list[CredentialBinding],
    ) -> CredentialVaultState:
        """Makes the vault. Secrets go in and never come back."""
        body = {
            "credentials": [convert.credential(one) for one in credentials],
            "bindings": [convert.binding(one) for one in bindings],
        }
        state: CredentialVaultState = parsed(
            CredentialVaultState, self._ask("POST", VAULT, body=body)
        )
        return state

    def get(self) -> CredentialVaultState:
        """What is in the vault, without the secrets."""
        state: CredentialVaultState = parsed(
            CredentialVaultState, self._ask("GET", VAULT)
        )
        return state

    def patch(
        self,
        *,
        expected_revision: int | None = None,
        credentials: CredentialMutationSet | dict[str, Any] | None = None,
        bindings: CredentialBindingMutationSet | dict[str, Any] | None = None,
    ) -> CredentialVaultState:
        """Changes credentials and bindings, all or nothing."""
        body = dense(
            expectedRevision=expected_revision,
            credentials=convert.mutation(credentials, convert.credential),
            bindings=convert.mutation(bindings, convert.binding),
        )
        state: CredentialVaultState = parsed(
            CredentialVaultState, self._ask("PATCH", VAULT, body=body)
        )
        return state

    def delete(self) -> None:
        """Removes the vault."""
        self._tell("DELETE", VAULT)

    def list_credentials(self) -> list[CredentialMetadata]:
        answer = self._ask("GET", f"{VAULT}/credentials")
        listed: CredentialListResponse = parsed(CredentialListResponse, answer)
        return listed.credentials

    def get_credential(self, name: str) -> CredentialMetadata:
        path = f"{VAULT}/credentials/{segment(need_text(name, 'name'))}"
        found: CredentialMetadata = parsed(CredentialMetadata, self._ask("GET", path))
        return found

    def list_bindings(self) -> list[CredentialBindingMetadata]:
        answer = self._ask("GET", f"{VAULT}/bindings")
        listed: CredentialBindingListResponse = parsed(CredentialBindingListResponse, answer)
        return listed.bindings

    def get_binding(self, name: str) -> CredentialBindingMetadata:
        path = f"{VAULT}/bindings/{segment(need_text(name, 'name'))}"
        found: CredentialBindingMetadata = parsed(
            CredentialBindingMetadata, self._ask("GET", path)
        )
        return found
