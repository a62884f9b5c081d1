#!/bin/sh
# Builds the x86-64 programs of public test suites, from Debian's packages, and says which of them this machine passes.
#   x64_suites.sh qemu|valgrind|selftests
# Leaves in $BUILD/judges/x64/SUITE, for each program: NAME; NAME.verdict: "pass", "fail WHY" or "nocompile". A program passes
# that ends with status 0 and whose output, where the suite says what it must be (valgrind: NAME.stdout.exp*), is that.
# (This machine may fail one: an instruction that it lacks, flags that Valgrind's authors saw on another.)
set -eu
suite=$1
build=$(cd "${BUILD:-build}" && pwd)
out=$build/judges/x64/$suite
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cd "$out"
[ ! -e .done ] || exit 0
ulimit -c 0

fetch() { BUILD=$build sh "$here/fetch.sh" "$@"; }
source_of() { echo "$build/src/$1"; }

# NAME and the compiler's arguments.
compile() {
  name=$1
  shift
  gcc -w -g -I. "$@" -o "$name" -lm -lpthread >"$name.log" 2>&1 || { rm -f "$name"; echo nocompile >"$name.verdict"; return 1; }
}

# NAME, and a command that judges its standard output (NAME.native).
judge() {
  status=0
  timeout -k 1 100 "./$1" >"$1.native" 2>/dev/null </dev/null || status=$?
  if [ $status -ne 0 ]; then echo "fail status $status"; elif "$2" "$1"; then echo pass; else echo "fail output"; fi >"$1.verdict"
}
any() { true; }

qemu() {
  fetch qemu:qemu-tcg '*/tests/tcg/*'
  i386=$(source_of qemu-tcg)/tests/tcg/i386
  python3 "$i386/test-avx.py" "$i386/x86.csv" test-avx.h
  python3 "$i386/test-mmx.py" "$i386/x86.csv" test-mmx.h MMX SSE SSE2 SSE3 SSSE3
  if compile test-x86_64 -O2 -fno-pie -no-pie -I"$i386" "$i386/test-i386.c"; then judge test-x86_64 any; fi
  if compile test-avx -O -mavx -masm=intel "$i386/test-avx.c"; then judge test-avx any; fi
  if compile test-mmx -O -masm=intel "$i386/test-mmx.c"; then judge test-mmx any; fi
  for file in "$i386"/test-i386-*.c "$i386"/../x86_64/*.c; do
    name=$(basename "$file" .c)
    if compile "$name" -O2 -msse4.2 -mfpmath=sse -I"$i386" "$file"; then judge "$name" any; fi
  done
}

# Valgrind's own filters take off what differs between machines; both sides go through them.
filtered() { if [ -s "$1.filter" ]; then sh "$(cat "$1.filter")"; else cat; fi; }
as_expected() {
  filtered "$1" <"$1.native" >"$1.filtered"
  for expected in "$tests/$1".stdout.exp*; do cmp -s "$expected" "$1.filtered" && return 0; done
  return 1
}
valgrind() {
  fetch valgrind:valgrind-none '*/none/tests/*' '*/tests/*'
  tests=$(source_of valgrind-none)/none/tests/amd64
  echo '#define HAVE_AS_AMD64_FXSAVE64 1' >config.h # of its configure, which the tests include
  for file in "$tests"/*.stdout.exp; do
    name=$(basename "$file" .stdout.exp)
    source=$tests/$name.c
    if [ -e "$tests/$name.def" ]; then
      perl "$tests/gen_insn_test.pl" <"$tests/$name.def" >"$name.c"
      source=$name.c
    fi
    case $name in
    aes | insn_* | pcmp* | sse4-64 | crc32 | ssse3*) flags="-O -msse4.2 -maes -mpclmul -mmmx" ;;
    avx* | fma* | bmi | f16c | movbe | lzcnt64 | rdrand | rdseed | adx) flags="-O -mavx2 -mfma -mbmi -mbmi2 -mf16c -mmovbe -mlzcnt -mrdrnd -mrdseed" ;;
    *) flags="-O" ;;
    esac
    filter=$(sed -n 's/^stdout_filter: *//p' "$tests/$name.vgtest")
    [ -z "$filter" ] || echo "$tests/$filter" >"$name.filter"
    if compile "$name" $flags -DVGO_linux=1 -DVGA_amd64=1 -I"$tests" -I"$tests/../../../include" -I"$tests/../../.." "$source" -no-pie; then judge "$name" as_expected; fi
  done
}

# What they say of each case; they end with status 0 or, where the kernel lacks something, 4.
no_failure() { ! grep -q '^\[FAIL\]\|^not ok' "$1.native"; }
selftests() {
  archive=/usr/src/linux-source-6.1.tar.xz
  [ -e $archive ] || { echo "x64_suites.sh: the package linux-source-6.1 is not installed" >&2; exit 1; }
  x86=src/tools/testing/selftests/x86
  mkdir -p src
  tar -xJf $archive -C src --strip-components=1 --wildcards 'linux-source-6.1/tools/testing/selftests/x86/*' \
    'linux-source-6.1/tools/testing/selftests/kselftest*.h' 'linux-source-6.1/arch/x86/include/asm/desc_defs.h'
  for file in $x86/*.c; do
    name=$(basename "$file" .c)
    grep -q 'int main' "$file" || continue
    case $name in
    sysret_*) extra=$x86/thunks.S ;;
    check_initial_reg_state) extra="-Wl,-ereal_start -static" ;;
    *) extra= ;;
    esac
    if compile "$name" -O2 -std=gnu99 -no-pie -I$x86 -DCAN_BUILD_64 "$file" $extra; then judge "$name" no_failure; fi
  done
}

"$suite"
touch .done
