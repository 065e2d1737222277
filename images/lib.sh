# lib.sh - what the build scripts of all images share; sourced by them.
#
# An image whose directory has a file `from` adds to the root of the image named there: its script
# begins with base_root in place of debian, and tools/images stores only the difference as its layer.
#
# A script sets `image` (its name) and `packages`, defines usage() and more_needs(), and calls
# image_begin "$@", then step for each step, then image_end. $root is the directory that it fills.
# shellcheck shell=sh disable=SC2154 # image, packages and default_suite are the script's

say() {
    echo "$image: $*" >&2
}

die() {
    say "$@"
    exit 1
}

# usage_of TEXT - the help of an image that adds to another one.
usage_of() {
    cat <<TEXT
usage: images/$image/build [OPTION...] DIRECTORY

$1

It adds to the root of images/$(cat "$(dirname "$0")/from"), whose script runs first.

  --suite NAME    Debian's release (${default_suite:-bookworm})
  --mirror URL    where its packages come from (http://deb.debian.org/debian)
  --ca FILE       certificates of a private authority, PEM, that mirrors or a proxy present; those
                  that this host trusts (update-ca-certificates) are trusted anyway
  --force         make it anew although it is there
  --help          this text

Needs root and the network.
TEXT
}

options() {
    suite=${default_suite:-bookworm} mirror=http://deb.debian.org/debian ca='' force=no target=
    while [ $# -gt 0 ]; do
        case $1 in
        --suite) suite=${2-} && shift ;;
        --mirror) mirror=${2-} && shift ;;
        --ca) ca=${2-} && shift ;;
        --force) force=yes ;;
        --help)
            usage
            exit 0
            ;;
        -*) die "unknown option $1; --help lists them" ;;
        *) target=$1 ;;
        esac
        shift
    done
    [ -n "$target" ] || die "no directory given; --help says more"
    [ -z "$ca" ] || [ -r "$ca" ] || die "--ca $ca: there is no such file"
    case $target in
    /*) ;;
    *) target=$PWD/$target ;;
    esac
}

# package  check; a script may have more_needs() of its own.
needs() {
    cat <<'TABLE'
ca-certificates         test -e /etc/ssl/certs/ca-certificates.crt
debian-archive-keyring  test -e /usr/share/keyrings/debian-archive-keyring.gpg
mmdebstrap              command -v mmdebstrap
TABLE
    more_needs
}

missing() {
    needs | while read -r package check; do
        sh -c "$check" >/dev/null 2>&1 || printf '%s ' "$package"
    done
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get -qq update && apt-get -qq install --no-install-recommends "$@"
}

# One bundle for all that fetches: what this host trusts, and what --ca adds. pip and npm otherwise
# bring their own and know no private authority.
trust() {
    bundle=$root.ca
    cat /etc/ssl/certs/ca-certificates.crt ${ca:+"$ca"} >"$bundle"
    export PIP_CERT="$bundle" NODE_EXTRA_CA_CERTS="$bundle" SSL_CERT_FILE="$bundle"
}

# The choices and the scripts: what a directory was made by.
stamp() {
    { echo "$suite $mirror" && cat "$0" "$(dirname "$0")/../lib.sh"; } | cksum
}

# step NAME COMMAND... - runs it, with its output in the log, and says how long it took.
step() {
    name=$1 step_began=$(date +%s)
    shift
    printf '%s: %-28s' "$image" "$name" >&2
    if ! "$@" >>"$log" 2>&1; then
        echo "failed" >&2
        tail -n 20 "$log" >&2
        die "the whole output is in $log"
    fi
    echo "$(($(date +%s) - step_began)) s" >&2
}

# inside COMMAND... - runs it in the new root, which sees processes and nothing of the network.
inside() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork --net sh -c \
        'mount -t proc proc "$0/proc" && exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 \
         PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"' "$root" "$@"
}

# online COMMAND... - runs it in the new root with the network of this host. Nothing of what it needs for
# that stays in the root: names and certificates are mounted for its time only.
online() {
    mkdir -p "$root/run"
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork sh -c \
        'root=$0 bundle=$1 && shift && mount -t proc proc "$root/proc" &&
         mount -t tmpfs tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp" &&
         cp "$bundle" "$root/run/ca.pem" && cp -L /etc/resolv.conf "$root/run/resolv.conf" &&
         { [ -e "$root/etc/resolv.conf" ] || : >"$root/etc/resolv.conf"; } &&
         mount --bind "$root/run/resolv.conf" "$root/etc/resolv.conf" &&
         exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
         PIP_CERT=/run/ca.pem SSL_CERT_FILE=/run/ca.pem NODE_EXTRA_CA_CERTS=/run/ca.pem \
         ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
         ${no_proxy:+no_proxy="$no_proxy"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
         ${npm_config_registry:+npm_config_registry="$npm_config_registry"} "$@"' \
        "$root" "$bundle" "$@"
}

# base_root - begins with the root of the image that `from` names: a copy of $IMAGE_BASE_ROOT, which
# tools/images gives, or of what the script of that image makes.
base_root() {
    from=$(cat "$(dirname "$0")/from")
    if [ -n "${IMAGE_BASE_ROOT-}" ]; then
        cp -a --reflink=auto "$IMAGE_BASE_ROOT/." "$root"
        return
    fi
    "$(dirname "$0")/../$from/build" --suite "$suite" --mirror "$mirror" ${ca:+--ca "$ca"} "$root.base"
    rmdir "$root" && mv "$root.base" "$root"
}

# more_debian - adds $packages to the root that is there.
more_debian() {
    online apt-get -qq -o "Acquire::https::CAInfo=/run/ca.pem" update
    # shellcheck disable=SC2086 # a list of words
    online apt-get -qq -o "Acquire::https::CAInfo=/run/ca.pem" -o DPkg::Options::=--force-unsafe-io \
        install --no-install-recommends $packages
    online apt-get -qq clean
}

# user NAME - a user without privileges, uid 1000, with a home directory.
user() {
    inside useradd --create-home --uid 1000 --shell /bin/bash "$1"
    install -d -o 1000 -g 1000 "$root/workspace"
}

# program PATH - a file of the root from standard input, executable.
program() {
    mkdir -p "$root/$(dirname "$1")"
    cat >"$root/$1"
    chmod 755 "$root/$1"
}

debian() {
    list=$(echo "$packages" | tr -s ' \n' ',')
    # The packages of Java cannot do without the directory of manuals.
    # shellcheck disable=SC2016 # the hook's own
    mmdebstrap --mode=root --variant=minbase --include="$list" \
        --essential-hook='mkdir -p "$1/usr/share/man/man1"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --aptopt="Acquire::https::CAInfo \"$bundle\"" "$suite" "$root" "$mirror"
}

# What a package manager leaves behind: logs with the time of the build, caches that are made anew.
clean() {
    rm -rf "$root/var/cache/apt"/*.bin "$root/var/lib/apt/lists"/* "$root/var/log"/*.log \
        "$root/var/log/apt" "$root/var/cache/ldconfig/aux-cache" "$root/root/.npm" "$root/root/.cache/pip"
    for temporary in "$root/tmp" "$root/var/tmp"; do
        [ ! -d "$temporary" ] || find "$temporary" -mindepth 1 -delete
    done
}

put_in_place() {
    stamp >"$root/etc/opensandbox-image"
    if [ -e "$target" ]; then
        mv "$target" "$root.old"
    fi
    mv "$root" "$target"
    rm -rf "$root.old"
}

image_begin() {
    options "$@"
    if [ "$force" = no ] && [ "$(cat "$target/etc/opensandbox-image" 2>/dev/null)" = "$(stamp)" ]; then
        say "$target is up to date"
        exit 0
    fi
    [ "$(id -u)" = 0 ] || die "only root can make a root directory: sudo $0 $*"
    began=$(date +%s)
    mkdir -p "$(dirname "$target")"
    root=$(mktemp -d "$target.XXXXXX") # beside it: moving it there is one step
    log=$root.log
    trap 'rm -rf "$root" "$root.old" "$root.base" "$root.ca"' EXIT
    trap 'exit 1' HUP INT TERM
    chmod 755 "$root"
    lacking=$(missing)
    if [ -n "$lacking" ]; then
        command -v apt-get >/dev/null || die "install $lacking: there is no apt-get that could do it"
        # shellcheck disable=SC2086 # a list of words
        step "tools of this host" apt_install $lacking
    fi
    trust
}

image_end() {
    step "cleaning" clean
    put_in_place
    rm -f "$log"
    took=$(($(date +%s) - began))
    say "$target: $(du -sm "$target" | cut -f1) MB in $((took / 60)) min $((took % 60)) s"
}
