#!/bin/sh
# Berkeley TestFloat, from the qemu source package, as a generator of cases with results.
#   testfloat.sh build                  $BUILD/judges/testfloat_gen, with SoftFloat's RISC-V rules
#   testfloat.sh cases full [NAME]      prints TestFloat's cases at level 1, for fp_judge: all functions,
#                                       or those that NAME (a regular expression) fits
#                                       ("-v NAME": all others)
#   testfloat.sh cases quick [NAME]     some 2000 evenly chosen ones of each function and rounding mode
set -eu
build=$(cd "${BUILD:-build}" && pwd)
fp=$build/src/qemu/tests/fp

if [ "$1" = build ]; then
  # The two makefiles want to be called in their own folders; results stay there but for the program.
  make -C "$fp/berkeley-softfloat-3/build/Linux-x86_64-GCC" SPECIALIZE_TYPE=RISCV
  make -C "$fp/berkeley-testfloat-3/build/Linux-x86_64-GCC" SPECIALIZE_TYPE=RISCV testfloat_gen
  mkdir -p "$build/judges"
  cp "$fp/berkeley-testfloat-3/build/Linux-x86_64-GCC/testfloat_gen" "$build/judges"
  exit
fi

size=$2
shift 2
[ $# -gt 0 ] || set -- .
# Each function that riscv64 has an instruction for (it has no signaling eq and no quiet le and lt),
# and whether rounding modes make a difference to it (riscv64's frm numbers).
functions() {
  for f in f32 f64; do
    for op in add sub mul div sqrt mulAdd to_i32 to_ui32 to_i64 to_ui64; do echo "${f}_$op 0 1 2 3 4"; done
    for op in eq le lt; do echo "${f}_$op 0"; done
    for int in i32 ui32 i64 ui64; do echo "${int}_to_$f 0 1 2 3 4"; done
  done
  echo f64_to_f32 0 1 2 3 4
  echo f32_to_f64 0
}
functions | grep -E "$@" | while read -r function modes; do
  for mode in $modes; do
    echo "= $function $mode"
    case $mode in 0) rounding=-rnear_even ;; 1) rounding=-rminMag ;; 2) rounding=-rmin ;; 3) rounding=-rmax ;; 4) rounding=-rnear_maxMag ;; esac
    stride=1 exact=
    if [ "$size" = quick ]; then
      case $function in *_mulAdd) stride=3001 ;; *_to_* | *_sqrt) ;; *) stride=23 ;; esac
    fi
    case $function in *_to_*i32 | *_to_*i64) exact=-exact ;; esac
    "$build/judges/testfloat_gen" -level 1 -tininessafter "$rounding" $exact "$function" 2>>"$build/judges/testfloat.log" |
      if [ $stride = 1 ]; then cat; else awk "NR % $stride == 0"; fi
  done
done
