#!/bin/sh
# gcc's c-torture execute tests, from the package gcc-12-source, compiled for rv64 or x64 (with all that this machine has).
#   torture.sh ARCH STRIDE OPT     every STRIDE-th file at optimisation OPT (-O0 ... -O3)
# Leaves in $BUILD/judges/torture/ARCH/OPT, for each file: NAME (a static program), and NAME.verdict: "pass"
# (status 0 under qemu-user, natively on x64), "fail STATUS" or "nocompile". What exists already is kept.
#   torture.sh one ARCH OPT SOURCE...     (what it calls itself with)
set -eu
build=$(cd "${BUILD:-build}" && pwd)
base=$build/judges/torture
self=$(realpath "$0")

case $([ "$1" = one ] && echo "$2" || echo "$1") in
rv64) cc=riscv64-linux-gnu-gcc judge=qemu-riscv64 ;;
x64) cc="gcc -march=native" judge="" ;;
*) echo "torture.sh: which architecture?" >&2; exit 2 ;;
esac

# The options that a test asks for in its dg- comments, where they do not depend on a target.
options() {
  sed -n -E 's/.*\{ *dg-(additional-)?options *(\{ *)?"([^"]*)" *\}.*/\3/p' "$1" | tr '\n' ' '
}

one() {
  out=$base/$1/$2/$(echo "${3#"$base"/src/}" | tr / -)
  out=${out%.c}
  [ -e "$out.verdict" ] && return
  verdict=nocompile
  if $cc -w -std=gnu17 "$2" $(options "$3") -static -Wl,-s "$3" -o "$out" -lm >/dev/null 2>&1; then
    status=0
    timeout -k 1 20 $judge "$out" </dev/null >/dev/null 2>&1 || status=$?
    verdict="fail $status"
    [ $status -eq 0 ] && verdict=pass
  fi
  [ "$verdict" = pass ] || rm -f "$out"
  echo "$verdict" >"$out.verdict"
}

if [ "$1" = one ]; then
  arch=$2 opt=$3
  shift 3
  cd "$(mktemp -d)"
  ulimit -c 0
  for source; do one "$arch" "$opt" "$source" 2>/dev/null; done
  rm -rf "$PWD"
  exit
fi

arch=$1 stride=$2 opt=$3
if [ ! -e "$base/.extracted" ]; then
  set -- /usr/src/gcc-12/gcc-12*.tar.xz
  [ -e "$1" ] || { echo "torture.sh: the package gcc-12-source is not installed" >&2; exit 1; }
  mkdir -p "$base/src"
  tar -xJf "$1" -C "$base/src" --strip-components=5 --wildcards '*/gcc/testsuite/gcc.c-torture/execute/*'
  touch "$base/.extracted"
fi
mkdir -p "$base/$arch/$opt"
# builtins/ is another framework: tests in pairs with their own library.
find "$base/src" -name '*.c' ! -path '*/builtins/*' | LC_ALL=C sort | awk "NR % $stride == 0" >"$base/list-$stride"
xargs -P2 -n16 sh "$self" one "$arch" "$opt" <"$base/list-$stride"
