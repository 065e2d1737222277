# lib.sh - what the build scripts of all images share; sourced by them.
#
# A script sets `image` (its name) and `packages`, defines usage() and more_needs(), and calls
# image_begin "$@", then step for each step, then image_end. $root is the directory that it fills.
# shellcheck shell=sh disable=SC2154 # image and packages are the script's

say() {
    echo "$image: $*" >&2
}

die() {
    say "$@"
    exit 1
}

options() {
    suite=bookworm mirror=http://deb.debian.org/debian ca='' force=no target=
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
    trap 'rm -rf "$root" "$root.old" "$root.ca"' EXIT
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
