#!/bin/sh
# Random C programs by csmith, whose output is a checksum of all their variables.
#   csmith.sh COUNT     the first COUNT seeds that end within two seconds natively
# Leaves in $BUILD/judges/csmith: SEED (a static riscv64 program at -O2), SEED.out (what the native
# build printed), seeds (the list). What exists already is kept.
set -eu
count=$1
base=$(mkdir -p "${BUILD:-build}/judges/csmith" && cd "${BUILD:-build}/judges/csmith" && pwd)
cd "$base"
seed=0 good=0
: >seeds.new
while [ $good -lt "$count" ]; do
  seed=$((seed + 1))
  if [ ! -e $seed.done ]; then
    csmith --seed $seed --no-argc -o $seed.c >/dev/null
    gcc -w -O1 -I/usr/include/csmith $seed.c -o $seed.native
    if timeout 2 ./$seed.native >$seed.out 2>/dev/null; then
      riscv64-linux-gnu-gcc -w -O2 -static -Wl,-s -I/usr/include/csmith $seed.c -o $seed
    else
      rm -f $seed.out # endless; csmith makes such programs now and then
    fi
    rm -f $seed.native platform.info
    touch $seed.done
  fi
  if [ -e $seed.out ]; then
    good=$((good + 1))
    echo $seed >>seeds.new
  fi
done
mv seeds.new seeds
