# program.sh - what the images of one program share; sourced by their scripts, which set `image`,
# `packages`, `program` (its name), `built` (where it is below build/) and `at` (its path inside), and
# may define more_files().
# shellcheck shell=sh disable=SC2154,SC2034 # set by the script, used by lib.sh

usage() {
    cat <<TEXT
usage: images/$image/build [OPTION...] DIRECTORY

Makes DIRECTORY a root with $program at $at and the libraries that it needs, from Debian's packages.
The program is that of build/, or the installed one, or \$OPENSANDBOX_PROGRAM. A directory that this
script made before, with the same choices and the same program, is left as it is.

  --suite NAME    Debian's release (bookworm)
  --mirror URL    where its packages come from (http://deb.debian.org/debian)
  --ca FILE       certificates of a private authority, PEM, that mirrors or a proxy present; those
                  that this host trusts (update-ca-certificates) are trusted anyway
  --force         make it anew although it is there
  --help          this text

Needs root and the network. mmdebstrap is installed by apt-get where it is missing. A proxy is taken
from http_proxy, https_proxy and no_proxy in the environment.
TEXT
}

more_needs() {
    :
}

more_files() {
    :
}

# shellcheck source=images/lib.sh
. "$(dirname "$0")/../lib.sh"

find_program() {
    for found in "${OPENSANDBOX_PROGRAM-}" "$(dirname "$0")/../../build/$built" \
        "/usr/local/sbin/$program" "/usr/local/libexec/opensandbox/$program" \
        "/usr/sbin/$program" "/usr/libexec/opensandbox/$program"; do
        [ -z "$found" ] || [ ! -x "$found" ] || return 0
    done
    die "$program is not built; run make, or set OPENSANDBOX_PROGRAM"
}

# Without this a new program would find the old root up to date.
stamp() {
    find_program
    {
        echo "$suite $mirror"
        cat "$0" "$(dirname "$0")/../lib.sh" "$(dirname "$0")/../program.sh" "$found"
    } | cksum
}

add_program() {
    find_program
    mkdir -p "$root$(dirname "$at")"
    install -m 755 "$found" "$root$at"
    more_files
    inside "$at" --version
}

program_image() {
    image_begin "$@"
    step "Debian's packages" debian
    step "$program" add_program
    image_end
}
