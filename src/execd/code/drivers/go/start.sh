# start.sh - compiles the driver by the go of the image, once for each version of either, and
# becomes it. Its source is descriptor 5: files, one after the other, told apart by their first
# lines.
# shellcheck shell=sh
set -u
umask 077

fail() {
    text=$(printf '%s' "$1" | tr -c '[:alnum:][:punct:]' ' ' | tr -d '"\134')
    printf '{"type":"failed","message":"%s"}\n' "$text" >&4
    exit 1
}

cache=$(go env GOCACHE 2>/dev/null)
if [ -z "$cache" ] || ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
    cache=$(mktemp -d "${TMPDIR:-/tmp}/execd-go.XXXXXX") || fail "go: no place for its cache"
fi
# Compiling takes room, and /tmp may be small.
export GOCACHE="$cache" GOTMPDIR="${GOTMPDIR:-$cache/tmp}"
mkdir -p "$GOTMPDIR" 2>/dev/null
driver=$cache/execd-$(go env GOVERSION)-$(cksum </dev/fd/5 | tr ' ' -)
if [ ! -x "$driver" ]; then
    made=$(mktemp -d "$cache/execd.XXXXXX") || fail "go: no place for the driver"
    awk -v to="$made/" '/^\/\/ [a-z]+\.go - / { f = $2 } f != "cell.go" { print >(to f) }' \
        </dev/fd/5
    # No workspace and no module of the working directory has a say in how it is made.
    text=$(cd "$made" && GOFLAGS='' GOWORK=off go build -o driver ./*.go 2>&1) ||
        fail "go: the driver cannot be compiled: $text"
    mv "$made/driver" "$driver"
    rm -rf "$made"
fi
exec "$driver"
