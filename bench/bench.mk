# What `make bench` runs: the programs of bench/programs.def for every architecture, static, same sources and flags.
# Sources of ours are bench/src/NAME.c; the others come from Debian's source packages, fetched below $(BUILD) (spec/judges/fetch.sh).
# bench/bench.lua makes what it needs. -ffp-contract=off: a machine with fused multiply-add must not print other digits.

BENCH       := $(BUILD)/bench
BENCH_FLAGS := -O2 -g -std=gnu11 -static -ffp-contract=off
BENCH_CC_rv64 := riscv64-linux-gnu-gcc
BENCH_CC_x64  := gcc
BENCH_CC_aa64 := aarch64-linux-gnu-gcc

define bench_rules
$(BENCH)/$(1)/%: bench/src/%.c
	@mkdir -p $$(@D)
	$(BENCH_CC_$(1)) $(BENCH_FLAGS) -Wall -Wextra -o $$@ $$< -lm
$(BENCH)/$(1)/lua: $(SRC)/lua5.4/.done
	@mkdir -p $$(@D)
	cd $(SRC)/lua5.4/src && $(BENCH_CC_$(1)) $(BENCH_FLAGS) -w -DLUA_USE_POSIX $$$$(ls *.c | grep -v luac.c) -o $$(abspath $$@) -lm
$(BENCH)/$(1)/bzip2: $(SRC)/bzip2/.done
	@mkdir -p $$(@D)
	cd $(SRC)/bzip2 && $(BENCH_CC_$(1)) $(BENCH_FLAGS) -w -D_FILE_OFFSET_BITS=64 blocksort.c huffman.c crctable.c randtable.c \
	  compress.c decompress.c bzlib.c bzip2.c -o $$(abspath $$@)
$(BENCH)/$(1)/minigzip: $(SRC)/zlib/.done
	@mkdir -p $$(@D)
	cd $(SRC)/zlib && $(BENCH_CC_$(1)) $(BENCH_FLAGS) -w -DHAVE_UNISTD_H -I. *.c test/minigzip.c -o $$(abspath $$@)
$(BENCH)/$(1)/speedtest1: $(BENCH)/sqlite3/sqlite3.c
	@mkdir -p $$(@D)
	$(BENCH_CC_$(1)) $(BENCH_FLAGS) -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I$(BENCH)/sqlite3 \
	  $$< $(SRC)/sqlite3/test/speedtest1.c -o $$@ -lm
$(BENCH)/$(1)/functions: $(BENCH)/functions.c
	@mkdir -p $$(@D)
	$(BENCH_CC_$(1)) $(BENCH_FLAGS) -g0 -O1 -w -o $$@ $$<
endef
$(foreach arch,rv64 x64 aa64,$(eval $(call bench_rules,$(arch))))

$(BENCH)/sqlite3/sqlite3.c: $(SRC)/sqlite3/.done
	@mkdir -p $(@D)
	top=$(abspath $(SRC))/sqlite3; $(MAKE) -s -C $(@D) -f $$top/main.mk TOP=$$top BCC="gcc -w" TCC=gcc NAWK=awk OPTS= sqlite3.c \
	  >$(BENCH)/sqlite3.log 2>&1 || { cat $(BENCH)/sqlite3.log >&2; false; }
$(BENCH)/functions.c: bench/functions.lua bench/bench.mk
	@mkdir -p $(@D)
	lua5.4 $< 3000 >$@.new && mv $@.new $@
$(BENCH)/text.%: bench/inputs.lua
	@mkdir -p $(@D)
	lua5.4 $< $* >$@.new && mv $@.new $@
$(BENCH)/cputime: bench/cputime.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARN) -o $@ $<
# The translator's judge on x86-64: the compiler proper on one preprocessed file.
$(BENCH)/lvm.i: $(SRC)/lua5.4/.done
	@mkdir -p $(@D)
	gcc -E -O2 -DLUA_USE_POSIX $(SRC)/lua5.4/src/lvm.c -o $@

.PRECIOUS: $(BENCH)/functions.c $(BENCH)/text.%
