#!/bin/bash
# deps.sh - installs what lake is built and tested with. Safe to run again: it does only what is missing.
#
#   tools/deps.sh            Debian packages, DuckDB, nanoarrow: what a build needs
#   tools/deps.sh --tests    the above, and the Python environments, the JDBC driver and the S3 server for the tests
#
# Downloads go through the ordinary clients (apt-get, pip, mvn, go) and are checked against tools/deps.lock
# before anything uses them. They are kept in ${LAKE_DEPS_DIR:-${XDG_CACHE_HOME:-~/.cache}/lake-deps},
# which several checkouts may share; the checkout sees them as links in third_party/.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${LAKE_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lake-deps}
log=$cache/deps.log
python=/usr/bin/python3
duckdb=duckdb-2.0.0
nanoarrow=nanoarrow-0.9.0
versitygw=versitygw-1.8.0

build_packages=(
    ca-certificates ccache clang clang-format clang-tidy cmake cppcheck g++ gcc git make maven ninja-build
    openjdk-17-jre-headless pkg-config protobuf-c-compiler protobuf-compiler python3 python3-dev python3-pip
    python3-venv unzip util-linux
    libcmocka-dev libcurl4-openssl-dev libgrpc-dev libjansson-dev liblz4-dev libmicrohttpd-dev
    libprotobuf-c-dev libroaring-dev librocksdb-dev libssl-dev libzstd-dev zlib1g-dev
)
test_packages=(libclang-rt-14-dev openjdk-17-jdk-headless strace)

say() { echo "deps: $*" >&2; }
die() { echo "deps: error: $*" >&2; exit 1; }

retry() { # retry COMMAND...: three tries, for flaky networks; what it prints goes to the log
    local try
    : >"$log"
    for try in 1 2 3; do
        "$@" </dev/null >>"$log" 2>&1 && return 0
        tail -5 "$log" >&2
        say "try $try of 3 failed: $1 $2 (all of it in $log)"
        sleep $((try * 3))
    done
    return 1
}

# --- Debian packages -----------------------------------------------------------------------------

missing_packages() { # prints those of "$@" that are not installed
    local package
    local -A installed=()
    while read -r _ state package; do
        [ "$state" = installed ] && installed[$package]=1
    done < <(dpkg-query -W -f '${db:Status-Abbrev} ${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
    for package in "$@"; do
        [ -n "${installed[$package]:-}" ] || echo "$package"
    done
}

apt() { # apt ARGUMENTS...
    local sudo=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
        -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@"
}

install_packages() { # install_packages NAME...
    command -v dpkg-query >/dev/null || die "this script knows Debian 12 only; install by hand: $*"
    local missing=()
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if dpkg-query -W -f '${db:Status-Status}' libupb-dev 2>/dev/null | grep -qx installed; then
        die "libupb-dev conflicts with libgrpc-dev; run: apt-get remove libupb-dev"
    fi
    say "installing ${#missing[@]} Debian packages: ${missing[*]}"
    retry apt update || die "apt-get update failed; check the network and run this again"
    retry apt install --no-install-recommends "${missing[@]}" ||
        die "apt-get install failed; mend what it says and run this again"
}

# --- pinned downloads ----------------------------------------------------------------------------

locked() { # locked NAME: its sha256
    local sum
    sum=$(awk -v name="$1" '$2 == name { print $1 }' "$root/tools/deps.lock")
    [ -n "$sum" ] || die "tools/deps.lock has no line for $1"
    echo "$sum"
}

matches() { # matches FILE NAME: is FILE what tools/deps.lock says NAME is?
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$(locked "$2")" ]
}

from_maven() { # from_maven COORDINATES DIRECTORY
    command -v mvn >/dev/null || die "mvn is missing; run: apt-get install maven"
    mvn -q -B -U -Dstyle.color=never -Dmaven.repo.local="$work/m2" dependency:copy -Dartifact="$1" \
        -DoutputDirectory="$2"
}

from_pypi() { # from_pypi NAME==VERSION DIRECTORY: the source archive
    "$python" -m pip download -q --disable-pip-version-check --no-deps \
        --no-binary "${1%%==*}" "$1" -d "$2"
}

download() { # download FILE CLIENT WHAT: leaves FILE, verified, in the cache's downloads
    local file=$1 client=$2 what=$3
    matches "$cache/downloads/$file" "$file" && return 0
    say "downloading $what"
    rm -rf "$work/get"
    mkdir -p "$work/get" "$cache/downloads"
    retry "$client" "$what" "$work/get" || die "could not download $what; check the network and run this again"
    matches "$work/get/$file" "$file" ||
        die "$file is not what tools/deps.lock expects (got $(sha256sum "$work/get/$file" 2>&1)); nothing was kept"
    mv -f "$work/get/$file" "$cache/downloads/$file"
}

finish() { # finish DIRECTORY NAME: checks every locked file of NAME in it, then puts it in place at once
    local name file
    while read -r _ name; do
        file=${name#"$2/"}
        [ "$file" = "$name" ] || matches "$1/$file" "$name" || die "$name is not what tools/deps.lock expects"
    done < <(grep -v '^#' "$root/tools/deps.lock")
    rm -rf "${cache:?}/$2"
    mv "$1" "$cache/$2"
}

get_duckdb() {
    [ -d "$cache/$duckdb" ] && return 0
    [ "$(uname -sm)" = "Linux x86_64" ] || die "the pinned DuckDB is for Linux on x86_64 only"
    download duckdb_jdbc-2.0.0.1.jar from_maven org.duckdb:duckdb_jdbc:2.0.0.1
    download duckdb-2.0.0.tar.gz from_pypi duckdb==2.0.0
    local out=$work/duckdb inner=duckdb-2.0.0/external/duckdb
    mkdir -p "$out/lib" "$out/include"
    unzip -qo "$cache/downloads/duckdb_jdbc-2.0.0.1.jar" libduckdb_java.so_linux_amd64 -d "$out/lib"
    tar xzf "$cache/downloads/duckdb-2.0.0.tar.gz" -C "$work" "$inner/src/include" "$inner/LICENSE"
    cp "$work/$inner/src/include/"{duckdb.h,duckdb_v2.h} "$out/include/"
    cp "$work/$inner/LICENSE" "$out/"
    finish "$out" "$duckdb"
}

get_nanoarrow() { # one C file each for the core, IPC and flatcc; every symbol begins with Lk
    [ -d "$cache/$nanoarrow" ] && return 0
    download nanoarrow-0.9.0.tar.gz from_pypi nanoarrow==0.9.0
    local out=$work/nanoarrow arrow=$work/nanoarrow-0.9.0/subprojects/arrow-nanoarrow
    tar xzf "$cache/downloads/nanoarrow-0.9.0.tar.gz" -C "$work"
    mkdir -p "$arrow/thirdparty"
    ln -sfn ../../flatcc-fd3c4ae5cd39f0651eda6a3a1a374278070135d6 "$arrow/thirdparty/flatcc"
    "$python" "$arrow/ci/scripts/bundle.py" --symbol-namespace Lk --with-ipc --with-flatcc --output-dir "$out"
    cp "$arrow/src/nanoarrow/ipc/flatcc_generated.h" "$out/include/nanoarrow/"
    finish "$out" "$nanoarrow"
}

get_flight_jdbc() {
    local jar=flight-sql-jdbc-driver-18.3.0.jar
    [ -f "$cache/java/$jar" ] && return 0
    download $jar from_maven org.apache.arrow:flight-sql-jdbc-driver:18.3.0
    mkdir -p "$cache/java"
    mv -f "$cache/downloads/$jar" "$cache/java/$jar"
}

go_builds() { # go_builds MINOR: is there a Go of at least 1.MINOR?
    local version
    version=$(go env GOVERSION 2>/dev/null) || return 1
    [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$1" ]
}

get_versitygw() { # Go's checksum database verifies what its client downloads
    [ -d "$cache/$versitygw" ] && return 0
    if ! go_builds 25; then
        say "no Go 1.25 here: the S3 tests use moto, which checks no signatures"
        get_venv moto
        return 0
    fi
    say "building the S3 server for the tests (minutes)"
    retry env GOBIN="$work/versitygw/bin" go install "github.com/versity/versitygw/cmd/versitygw@v${versitygw#*-}" ||
        die "go could not build $versitygw; check the network and run this again"
    mv "$work/versitygw" "$cache/$versitygw"
}

get_venv() { # get_venv NAME: a Python environment with exactly tools/requirements/NAME.txt
    local name=$1 list=$root/tools/requirements/$1.txt venv
    venv=$cache/venv-$name-$(sha256sum "$list" | cut -c1-12)
    if [ ! -f "$venv/complete" ]; then # an environment cannot be moved, so a file says that it is whole
        say "building the Python environment '$name'"
        rm -rf "$venv"
        "$python" -m venv "$venv"
        retry "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes \
            -r "$list" || die "pip could not install $list; check the network and run this again"
        touch "$venv/complete"
    fi
    link "$venv" "venv-$name"
}

link() { # link TARGET NAME: third_party/NAME
    [ "$(readlink "$root/third_party/$2" 2>/dev/null || true)" = "$1" ] || ln -sfn "$1" "$root/third_party/$2"
}

# --- main ----------------------------------------------------------------------------------------

tests=false
case "${1:-}" in
    "") ;;
    --tests) tests=true ;;
    *) die "usage: tools/deps.sh [--tests]" ;;
esac

mkdir -p "$cache" "$root/third_party"
exec 9>"$cache/lock"
flock -n 9 || { say "another run holds $cache/lock; waiting for it"; flock 9; }
work=$cache/work # only under the lock; what an aborted run left is thrown away
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"

if $tests; then
    install_packages "${build_packages[@]}" "${test_packages[@]}"
else
    install_packages "${build_packages[@]}"
fi
get_duckdb
get_nanoarrow
link "$cache/$duckdb" duckdb
link "$cache/$nanoarrow" nanoarrow
if $tests; then
    get_flight_jdbc
    link "$cache/java" java
    get_versitygw
    [ ! -d "$cache/$versitygw" ] || link "$cache/$versitygw" versitygw
    for name in main pylance7 pylance1 bench context063 context067; do
        get_venv $name
    done
fi
