#!/bin/bash
# code-interpreter.sh - the entrypoint: chooses the versions that PYTHON_VERSION, JAVA_VERSION, NODE_VERSION
# and GO_VERSION name, and waits. execd starts kernels when the first cell comes.
here=$(dirname "$0")
for row in "python ${PYTHON_VERSION-}" "java ${JAVA_VERSION-}" "node ${NODE_VERSION-}" "go ${GO_VERSION-}"; do
    # shellcheck disable=SC1091,SC2086 # beside this file; two words
    source "$here/code-interpreter-env.sh" $row || exit 1
done
exec tail -f /dev/null
