# code-interpreter-env.sh - chooses the version of a language.
#
#   source /opt/code-interpreter/code-interpreter-env.sh python|java|node|go [VERSION]
#
# VERSION is one, or its beginning: 3.12, 17, 22; the highest that fits is taken, and without VERSION the
# default of this image. The choice holds for this shell, for commands and cells that execd starts from now
# on (by the file that EXECD_ENVS names), and for later shells (by ~/.bashrc, or BASHRC_FILE). Without a
# language it lists what there is.
# shellcheck shell=bash

# __ci_rows LANGUAGE - a line for each version, the lowest first: VERSION DIRECTORY
__ci_rows() {
    local place version
    case $1 in
    python) set -- /opt/python/versions/* ;;
    java) set -- /usr/lib/jvm/java-*-openjdk-* ;;
    node) set -- /opt/node/v* ;;
    go) set -- /opt/go/[0-9]* ;;
    *) return 1 ;;
    esac
    for place; do
        if [ ! -d "$place/bin" ] || [ -L "$place" ]; then continue; fi
        version=${place##*/} version=${version#java-} version=${version#v}
        printf '%s %s\n' "${version%%-*}" "$place"
    done | sort -V
}

# __ci_set FILE REGEX LINE... - the lines in place of those that match
__ci_set() {
    local file=$1 old=$2 kept
    shift 2
    kept=$(grep -Ev -- "$old" "$file" 2>/dev/null || true)
    printf '%s\n' ${kept:+"$kept"} "$@" 2>/dev/null >"$file" ||
        echo "code-interpreter: $file cannot be written" >&2
}

# __ci_path DIRECTORY PLACE - PATH without directories that begin with PLACE, and with this one first
__ci_path() {
    local part rest=$PATH: found=$1
    while [ -n "$rest" ]; do
        part=${rest%%:*} rest=${rest#*:}
        case $part in
        "$2"* | "" | "$1") ;;
        *) found=$found:$part ;;
        esac
    done
    printf '%s\n' "$found"
}

__ci_use() {
    local language=$1 wanted=${2-} place version row found='' home=''
    case $language in
    python) place=/opt/python/ wanted=${wanted:-${DEFAULT_PY_VERSION:-3.14}} ;;
    java) place=/usr/lib/jvm/ home=JAVA_HOME wanted=${wanted:-${DEFAULT_JAVA_VERSION:-21}} ;;
    node) place=/opt/node/ wanted=${wanted:-${DEFAULT_NODE_VERSION:-22}} ;;
    go) place=/opt/go/ home=GOROOT wanted=${wanted:-${DEFAULT_GO_VERSION:-1.25}} ;;
    *)
        for language in python java node go; do
            printf '%s:%s\n' "$language" "$(__ci_rows "$language" | while read -r version row; do
                printf ' %s' "$version"
            done)"
        done
        return 0
        ;;
    esac
    while read -r version row; do
        case $version in
        "${wanted#v}" | "${wanted#v}".*) found=$row ;;
        esac
    done < <(__ci_rows "$language")
    if [ -z "$found" ]; then
        echo "code-interpreter: there is no $language $wanted; there is$(
            __ci_rows "$language" | while read -r version row; do printf ' %s' "$version"; done)" >&2
        return 1
    fi
    PATH=$(__ci_path "$found/bin" "$place")
    export PATH CODE_INTERPRETER_PATH="$PATH"
    [ -z "$home" ] || export "$home=$found"
    if [ -n "${EXECD_ENVS-}" ]; then
        __ci_set "$EXECD_ENVS" '^(CODE_INTERPRETER_)?PATH=' "PATH=$PATH" "CODE_INTERPRETER_PATH=$PATH"
        [ -z "$home" ] || __ci_set "$EXECD_ENVS" "^$home=" "$home=$found"
    fi
    __ci_set "${BASHRC_FILE:-${HOME:-/root}/.bashrc}" "# code-interpreter $language\$" \
        "export PATH=\"$found/bin:\$PATH\"${home:+ $home=\"$found\"} # code-interpreter $language"
    hash -r
}

__ci_use "${1-}" "${2-}"
