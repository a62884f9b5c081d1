# The public judges: real programs and test suites, built from Debian's source packages below $(BUILD).
# `make judges` makes what `make test` needs; the specs make what they need themselves. Nothing fetched is ever committed.

JUDGE_CC  := riscv64-linux-gnu-gcc
JUDGE_OPT := -O2 -g -w
J   := $(BUILD)/judges/rv64
SRC := $(BUILD)/src
WORK := $(BUILD)/judges/work
JUDGE_APPLETS := awk basename cat cp cut echo env expr false grep head ls md5sum mkdir mv printf rm sed seq sleep \
                 sort tail tee test tr true uniq wc xargs

$(SRC)/%/.done:
	BUILD=$(BUILD) spec/judges/fetch.sh $*
$(SRC)/qemu/.done:
	BUILD=$(BUILD) spec/judges/fetch.sh qemu '*/tests/fp/berkeley-*'

$(J)/lua: $(SRC)/lua5.4/.done
	@mkdir -p $(@D)
	cd $(SRC)/lua5.4/src && $(JUDGE_CC) $(JUDGE_OPT) -DLUA_USE_POSIX $$(ls *.c | grep -v luac.c) -o $(abspath $@) -lm
$(J)/bzip2: $(SRC)/bzip2/.done
	@mkdir -p $(@D)
	cd $(SRC)/bzip2 && $(JUDGE_CC) $(JUDGE_OPT) -D_FILE_OFFSET_BITS=64 blocksort.c huffman.c crctable.c randtable.c \
	  compress.c decompress.c bzlib.c bzip2.c -o $(abspath $@)
$(J)/minigzip $(J)/zlib-example: $(J)/%: $(SRC)/zlib/.done
	@mkdir -p $(@D)
	cd $(SRC)/zlib && $(JUDGE_CC) $(JUDGE_OPT) -DHAVE_UNISTD_H -I. *.c $(ZLIB_MAIN) -o $(abspath $@)
$(J)/minigzip: ZLIB_MAIN = test/minigzip.c
$(J)/zlib-example: ZLIB_MAIN = test/example.c
$(J)/speedtest1: $(SRC)/sqlite3/.done
	@mkdir -p $(@D) $(WORK)/sqlite3
	top=$(abspath $(SRC))/sqlite3; $(MAKE) -s -C $(WORK)/sqlite3 -f $$top/main.mk TOP=$$top BCC="gcc -w" TCC=gcc \
	  NAWK=awk OPTS= sqlite3.c >$(WORK)/sqlite3.log 2>&1 || { cat $(WORK)/sqlite3.log >&2; false; }
	$(JUDGE_CC) $(JUDGE_OPT) -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I$(WORK)/sqlite3 \
	  $(WORK)/sqlite3/sqlite3.c $(SRC)/sqlite3/test/speedtest1.c -o $@ -lm
$(J)/dash: $(SRC)/dash/.done
	@mkdir -p $(@D) $(WORK)/dash
	cd $(WORK)/dash && { sh $(abspath $(SRC))/dash/configure --host=riscv64-linux-gnu CC=$(JUDGE_CC) CC_FOR_BUILD=gcc \
	  CFLAGS="$(JUDGE_OPT)" && $(MAKE) -s; } >$(abspath $(WORK))/dash.log 2>&1 || { cat $(abspath $(WORK))/dash.log >&2; false; }
	cp $(WORK)/dash/src/dash $@
$(J)/busybox: $(SRC)/busybox/.done
	@mkdir -p $(@D)
	sh spec/judges/busybox.sh $(SRC)/busybox $@ "$(JUDGE_APPLETS)" >$(BUILD)/src/busybox.build.log 2>&1 \
	  || { cat $(BUILD)/src/busybox.build.log >&2; false; }
$(J)/workers: spec/judges/workers.c
	@mkdir -p $(@D)
	$(JUDGE_CC) -O2 -g -Wall -Wextra -pthread $< -o $@ -lm

# Where the guest shell finds its commands: the applets themselves, and for qemu-user, which cannot
# execute a foreign file, scripts of the same names that call it.
$(J)/bin/.done: $(J)/busybox
	@mkdir -p $(J)/bin $(J)/bin-qemu
	for applet in $(JUDGE_APPLETS); do ln -sf ../busybox $(J)/bin/$$applet; \
	  printf '#!/bin/sh\nexec /usr/bin/qemu-riscv64 -L /usr/riscv64-linux-gnu %s/busybox %s "$$@"\n' $(abspath $(J)) $$applet \
	    >$(J)/bin-qemu/$$applet; chmod +x $(J)/bin-qemu/$$applet; done
	touch $@

.PHONY: programs judges testfloat torture csmith
programs: $(addprefix $(J)/,lua bzip2 minigzip zlib-example speedtest1 dash busybox workers bin/.done)
testfloat: $(BUILD)/judges/testfloat.quick
$(BUILD)/judges/testfloat.quick: $(BUILD)/judges/testfloat_gen
	BUILD=$(BUILD) sh spec/judges/testfloat.sh cases quick '^f32_mul' >$@.1 & \
	  BUILD=$(BUILD) sh spec/judges/testfloat.sh cases quick -v '^f32_mul' >$@.2 && wait && cat $@.1 $@.2 >$@.new
	rm $@.1 $@.2 && mv $@.new $@
$(BUILD)/judges/testfloat_gen: $(SRC)/qemu/.done spec/judges/testfloat.sh
	@mkdir -p $(WORK)
	BUILD=$(BUILD) sh spec/judges/testfloat.sh build >$(WORK)/testfloat.log 2>&1 || { cat $(WORK)/testfloat.log >&2; false; }
torture:
	BUILD=$(BUILD) sh spec/judges/torture.sh rv64 3 -O2
csmith:
	BUILD=$(BUILD) sh spec/judges/csmith.sh 20
judges: guests programs testfloat torture csmith
