# languages.sh FUNCTION - puts versions of languages into the root of the code interpreter, in which it runs.
# build calls one function after the other.
# shellcheck shell=sh
set -eu

# CPython as Maven's registry has it, version and release of the package; Debian's own Python beside it.
case $(uname -m) in
x86_64) maven_arch=x86_64 node_arch=x64 go_arch=amd64 pythons="3.10.8-1.5.8 3.11.3-1.5.9 3.12.1-1.5.10 3.14.3-1.5.13" ;;
aarch64) maven_arch=arm64 node_arch=arm64 go_arch=arm64 pythons="3.12.1-1.5.10 3.14.3-1.5.13" ;;
*)
    echo "no versions of languages are known for $(uname -m)" >&2
    exit 1
    ;;
esac
default_python=3.14
# version:release of Debian; its default JDK beside them.
javas="8:sid 11:sid 17:bookworm"
nodes="18.20.3 20.14.0 22.2.0" default_node=22.2.0 npm=10.9.2
gos="1.23.12 1.24.11 1.25.5" default_go=1.25.5
goimports=v0.38.0
apache_maven=3.9.2
kernels_of_python="bash_kernel ipykernel"
wheels_of_default="matplotlib numpy pandas"
modules="tslab typescript@5" # typescript 7 can no longer be called from a program
work=/var/tmp/languages

# fetch URL FILE
fetch() {
    mkdir -p "$work"
    curl --fail --silent --show-error --location --retry 3 --output "$work/$2" "$1"
}

# Java: packages of other releases, unpacked beside those of this one, whose libraries they use.
javas() {
    mkdir -p "$work/debs"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    for row in $javas; do
        echo "deb [signed-by=$keys] $DEBIAN_MIRROR ${row#*:} main"
    done | sort -u >/etc/apt/sources.list.d/languages.list
    # A mirror may be behind: a release that moves says for how long its index is valid.
    apt="apt-get -qq -o Acquire::https::CAInfo=/run/ca.pem -o APT::Sandbox::User=root
        -o Acquire::Check-Valid-Until=false"
    $apt update
    for row in $javas; do
        (cd "$work/debs" &&
            $apt download "openjdk-${row%:*}-jre-headless/${row#*:}" "openjdk-${row%:*}-jdk-headless/${row#*:}")
    done
    for deb in "$work/debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C / --keep-directory-symlink --exclude './usr/share'
    done
    rm -rf /etc/apt/sources.list.d/languages.list "$work"
    fetch "$MAVEN_MIRROR/org/apache/maven/apache-maven/$apache_maven/apache-maven-$apache_maven-bin.tar.gz" maven
    mkdir -p /opt/maven
    tar -xzf "$work/maven" -C /opt/maven --strip-components=1
    rm -rf "$work"
}

# The package is made for programs in Java that have Python in them: what only these need is left out.
python_of_maven() {
    place=/opt/python/versions/${1%-*} name=${1%.*-*}
    fetch "$MAVEN_MIRROR/org/bytedeco/cpython/$1/cpython-$1-linux-$maven_arch.jar" jar
    unzip -q "$work/jar" "org/bytedeco/cpython/linux-*" -d "$work"
    mkdir -p /opt/python/versions
    rm -rf "$place"
    mv "$work/org/bytedeco/cpython/linux-$maven_arch" "$place"
    for library in "$place"/libffi.so.*; do
        [ -e "/usr/lib/$(uname -m)-linux-gnu/${library##*/}" ] || mv "$library" /usr/local/lib
    done
    rm -rf "$place"/libffi* "$place"/libjni* "$place/libs" "${place:?}/$name" "$place/python$name" \
        "$place/lib/python$name/test" "$place/lib/python$name/idlelib" "$place/lib/python$name"/config-*/*.a
    chmod 755 "$place"/bin/*
    ln -sf "python$name" "$place/bin/python3"
    ln -sf python3 "$place/bin/python"
    # Its scripts begin with the path of the machine that made them.
    rm -f "$place"/bin/pip* "$place"/bin/idle* "$place"/bin/2to3* "$place"/bin/pydoc* "$place/bin/c_rehash"
    rm -rf "$work"
}

# Debian's own is a version like the others, by links.
python_of_debian() {
    version=$(/usr/bin/python3 -c 'import platform; print(platform.python_version())')
    place=/opt/python/versions/$version
    mkdir -p "$place/bin"
    for name in python python3 "python${version%.*}" pip pip3; do
        target=/usr/bin/$name
        [ "$name" != pip ] || target=/usr/bin/pip3
        ln -sf "$target" "$place/bin/$name"
    done
}

pythons() {
    for row in $pythons; do
        python_of_maven "$row"
    done
    python_of_debian
    ldconfig
    set -- /opt/python/versions/"$default_python"*
    ln -sfn "$1" /opt/python/default
    for place in /opt/python/versions/*; do
        "$place/bin/python3" -c 'import ctypes, ssl, zlib, bz2, venv, multiprocessing'
    done
}

wheels() {
    for place in /opt/python/versions/*; do
        [ -L "$place/bin/pip3" ] || "$place/bin/python3" -m pip install --quiet --no-cache-dir --upgrade \
            --force-reinstall pip
        more=
        case ${place##*/} in
        "$default_python"*) more="$wheels_of_default notebook uv" ;;
        *) [ ! -L "$place/bin/pip3" ] || more=$wheels_of_default ;;
        esac
        # 3.10 was made without SQLite, which IPython keeps its history in.
        "$place/bin/python3" -c 'import sqlite3' 2>/dev/null || {
            "$place/bin/python3" -m pip install --quiet --no-cache-dir pysqlite3-binary
            set -- "$place"/lib/python3.*/site-packages
            echo 'from pysqlite3._sqlite3 import *' >"$1/_sqlite3.py"
        }
        # shellcheck disable=SC2086 # lists of words
        "$place/bin/python3" -m pip install --quiet --no-cache-dir --root-user-action=ignore \
            $kernels_of_python $more
        "$place/bin/python3" -m ipykernel install --prefix "$place" --name python \
            --display-name "Python ${place##*/}"
    done
}

nodes() {
    for version in $nodes; do
        place=/opt/node/v$version
        fetch "$NPM_MIRROR/node-linux-$node_arch/-/node-linux-$node_arch-$version.tgz" node
        fetch "$NPM_MIRROR/npm/-/npm-$npm.tgz" npm
        rm -rf "$place"
        mkdir -p "$place/lib/node_modules/npm"
        tar -xzf "$work/node" -C "$place" --strip-components=1
        tar -xzf "$work/npm" -C "$place/lib/node_modules/npm" --strip-components=1
        for name in npm npx; do
            ln -sf "../lib/node_modules/npm/bin/$name-cli.js" "$place/bin/$name"
        done
        chmod 755 "$place"/bin/*
        rm -rf "$place/share/doc" "$place/share/man"
    done
    ln -sfn "/opt/node/v$default_node" /opt/node/default
    rm -rf "$work"
}

modules() {
    for place in /opt/node/v*; do
        # shellcheck disable=SC2086 # a list of words
        env PATH="$place/bin:$PATH" npm install --global --no-audit --no-fund --no-progress \
            --loglevel error --registry "$NPM_MIRROR" $modules
        find "$place/lib/node_modules" \( -path '*/zeromq/build/darwin' -o -path '*/zeromq/build/win32' -o \
            -path '*/zeromq/build/*/arm*' \) -prune -exec rm -r {} +
    done
}

# A toolchain is a module of Go's registry: an archive without modes.
gos() {
    mirror=${GO_MIRROR%%,*}
    for version in $gos; do
        name=v0.0.1-go$version.linux-$go_arch
        fetch "$mirror/golang.org/toolchain/@v/$name.zip" go
        unzip -q "$work/go" -d "$work"
        mkdir -p /opt/go
        rm -rf "/opt/go/$version"
        mv "$work/golang.org/toolchain@$name" "/opt/go/$version"
        chmod 755 "/opt/go/$version"/bin/* "/opt/go/$version"/pkg/tool/*/*
        rm -rf "$work" "/opt/go/$version/test"
    done
    ln -sfn "/opt/go/$default_go" /opt/go/default
    env PATH="/opt/go/default/bin:$PATH" GOTOOLCHAIN=local GOPROXY="$GO_MIRROR" GOFLAGS=-modcacherw \
        GOPATH="$work" GOCACHE="$work/cache" GOBIN=/usr/local/bin \
        go install "golang.org/x/tools/cmd/goimports@$goimports"
    rm -rf "$work"
}

spec() {
    mkdir -p "/usr/local/share/jupyter/kernels/$1"
    cat >"/usr/local/share/jupyter/kernels/$1/kernel.json"
}

# Under the names that clients use. The kernels of Java and Go are in none of these registries: execd's own
# drivers serve both.
kernels() {
    /opt/python/default/bin/python3 -m bash_kernel.install --prefix /usr/local
    spec tslab <<'JSON'
{"argv": ["tslab", "kernel", "--config-path", "{connection_file}"],
 "display_name": "TypeScript", "language": "typescript"}
JSON
    spec jslab <<'JSON'
{"argv": ["tslab", "kernel", "--config-path", "{connection_file}", "--js"],
 "display_name": "JavaScript", "language": "javascript"}
JSON
}

# What each language needs to start at once: compiled Python files, fonts of matplotlib, and Go's own
# packages for the default version.
warm() {
    # By hash and not by time: archives of images have times of their own.
    for place in /opt/python/versions/*; do
        set -- "$place"/lib/python3.*
        [ -d "$1" ] || set -- /usr/local/lib/python3.*
        # Some packages have files for newer versions of Python than this one.
        "$place/bin/python3" -m compileall -q -q -f --invalidation-mode unchecked-hash "$1" || true
    done
    for python in /opt/python/default/bin/python3 /usr/bin/python3; do
        "$python" -c 'import matplotlib.pyplot, pandas'
    done
    env HOME=/root PATH="/opt/go/default/bin:$PATH" GOTOOLCHAIN=local go build std
}

check() {
    for place in /opt/python/versions/*; do
        "$place/bin/python3" -c 'import bash_kernel, ipykernel.kernelapp, sqlite3, sys
print(sys.version)'
        "$place/bin/pip" --version
    done
    for place in /usr/lib/jvm/java-*-openjdk-*; do
        [ -L "$place" ] || "$place/bin/javac" -version
    done
    for place in /opt/node/v*; do
        env PATH="$place/bin:$PATH" sh -euc 'node --version; npm --version; tslab --version'
    done
    for place in /opt/go/1*; do
        "$place/bin/go" version
    done
    /opt/maven/bin/mvn --version
    /opt/python/default/bin/uv --version
    /opt/python/default/bin/jupyter notebook --version
    env PATH="/opt/python/default/bin:/opt/node/default/bin:/opt/go/default/bin:$PATH" \
        PYTHON_VERSION="$default_python" NODE_VERSION="${default_node%%.*}" image-ready
}

"$1"
