#!/bin/sh
# bootstrap.sh ENTRYPOINT... - starts a foreign image as a sandbox: execd, and with it the entrypoint.
#
# What can be done in C is done by `execd --bootstrap`, which becomes the first process: it makes the
# file of variables, installs certificates, starts the entrypoint, passes signals on, reaps orphans
# and ends with the entrypoint's status. Only a script that exports variables needs a shell.
set -e

EXECD=${EXECD:-/opt/opensandbox/execd}
EXECD_ENVS=${EXECD_ENVS:-/opt/opensandbox/.env}
export EXECD_ENVS

if [ -n "${EXECD_BOOTSTRAP_PRE_SCRIPT:-}" ]; then
    if [ -r "$EXECD_BOOTSTRAP_PRE_SCRIPT" ] && [ -f "$EXECD_BOOTSTRAP_PRE_SCRIPT" ]; then
        # shellcheck disable=SC1090
        . "$EXECD_BOOTSTRAP_PRE_SCRIPT"
    else
        echo "bootstrap: cannot read $EXECD_BOOTSTRAP_PRE_SCRIPT, going on without" >&2
    fi
    export _EXECD_PRE_SCRIPT_DONE=1
fi

echo "starting OpenSandbox Execd daemon at $EXECD."
# EXECD may carry flags.
# shellcheck disable=SC2086
exec $EXECD --bootstrap -- "$@"
