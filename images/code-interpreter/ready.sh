#!/bin/sh
# image-ready - succeeds when commands find the versions that PYTHON_VERSION, JAVA_VERSION, NODE_VERSION and
# GO_VERSION name: the entrypoint has made its choice, and each language starts.
set -eu

# What the entrypoint left for later commands, which this one may have begun before.
path=$([ ! -f "${EXECD_ENVS-}" ] || sed -n 's/^PATH=//p' "$EXECD_ENVS" | tail -n 1)
PATH=${path:-$PATH}

# is LANGUAGE WANTED FOUND
is() {
    case $3 in
    '') echo "there is no $1" >&2 && exit 1 ;;
    "$2" | "$2".*) ;;
    *) [ -z "$2" ] || { echo "$1 is $3, not $2" >&2 && exit 1; } ;;
    esac
}

is python "${PYTHON_VERSION-}" "$(python3 --version | sed 's/^Python //')"
# 8 calls itself 1.8.0.
is java "${JAVA_VERSION-}" "$(java -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([^"]*\)".*/\2/p')"
node=${NODE_VERSION-}
is node "${node#v}" "$(node --version | sed 's/^v//')"
is go "${GO_VERSION-}" "$(go version | sed 's/^go version go\([^ ]*\) .*/\1/')"
