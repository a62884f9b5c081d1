#!/bin/sh
# busybox.sh SOURCE OUT "APPLETS": busybox for riscv64 with just these applets and a plain configuration.
set -eu
source=$1 out=$(realpath -m "$2") applets=$3
cd "$source"
make -s allnoconfig
for applet in $applets; do
  sed -i "s/^# CONFIG_$(echo "$applet" | tr a-z A-Z) is not set/CONFIG_$(echo "$applet" | tr a-z A-Z)=y/" .config
done
yes '' | make -s oldconfig
make -s CROSS_COMPILE=riscv64-linux-gnu- ARCH=riscv SKIP_STRIP=y busybox
cp busybox "$out"
