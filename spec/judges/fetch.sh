#!/bin/sh
# Fetches a Debian source package and unpacks its upstream tarball into $BUILD/src/PACKAGE, without
# Debian's patches (they would want autoconf and debhelper, and are about packaging).
#   fetch.sh PACKAGE              everything
#   fetch.sh PACKAGE PATTERN...   only what matches (for large packages)
#   fetch.sh PACKAGE:NAME ...     the same into $BUILD/src/NAME (for two parts of one package)
# apt works in folders of its own below $BUILD, so the system's configuration stays untouched, and
# checks every file against Debian's signed index. A second call finds the work done.
set -eu
package=${1%:*} name=${1#*:}
shift
build=$(mkdir -p "${BUILD:-build}/src" && cd "${BUILD:-build}" && pwd)
target=$build/src/$name
[ -e "$target/.done" ] && exit 0

fail() {
  echo "fetch.sh: $package: $1 (is the network there? see $build/src/$package.log)" >&2
  exit 1
}

# Several recipes may want sources at once; apt's folders serve one at a time.
exec 9>"$build/src/lock"
flock 9
[ -e "$target/.done" ] && exit 0

apt=$build/src/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/get"
. /etc/os-release
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "http://deb.debian.org/debian $VERSION_CODENAME main" >"$apt/sources.list"
apt_get() {
  apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o APT::Update::Error-Mode=any "$@"
}

{
  [ -e "$apt/updated" ] || { apt_get update && touch "$apt/updated"; }
} >"$build/src/$package.log" 2>&1 || fail "cannot read Debian's source index"
(cd "$apt/get" && apt_get source --download-only "$package") >>"$build/src/$package.log" 2>&1 ||
  { rm -f "$apt/updated"; fail "cannot download the source package"; } # perhaps the index is old

rm -rf "$target"
mkdir "$target"
[ $# -gt 0 ] || set -- '*'
tar -xf "$apt/get/$package"_*.orig.tar.* -C "$target" --strip-components=1 --wildcards "$@" || fail "cannot unpack"
touch "$target/.done"
