# kitlua. `make demo` sets up everything and shows a profile; `make test` sets up everything and passes.
#   make                       $(BUILD)/libkit.a $(BUILD)/kitlua $(BUILD)/kit.so
#   make MODE=asan|ubsan|debug ...      BUILD=DIR: build elsewhere
#   make deps demo test verify check format bench doc install (PREFIX, DESTDIR)

MODE   ?= release
BUILD  ?= $(if $(filter release,$(MODE)),build,build/$(MODE))
PREFIX ?= /usr/local
CC     := gcc
SPECS  ?= spec
export BUILD

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
        -Wwrite-strings -Wundef -Wno-missing-field-initializers
OPT_release := -O2
OPT_debug   := -O0 -DKIT_DEBUG
OPT_asan    := -O1 -fsanitize=address -fno-omit-frame-pointer
OPT_ubsan   := -O1 -fsanitize=undefined -fno-sanitize-recover=undefined
SAN         := $(filter -fsanitize=%,$(OPT_$(MODE)))
CFLAGS      := -std=gnu11 -g -fPIC -fvisibility=hidden $(OPT_$(MODE)) $(WARN) -D_GNU_SOURCE -MMD -MP
ENGINE_INC  := -Iengine -Iengine/include -I/usr/include/libdwarf
LUA_INC     := -Iengine/include -I/usr/include/lua5.4
LIBS        := -ldwarf -lz -lZydis -lcapstone -lpthread -lm -ldl
PLACES      := -DKIT_PREFIX='"$(PREFIX)"' -DKIT_SOURCE='"$(CURDIR)"'

ENGINE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard engine/*/*.c engine/*/*/*.c))
MAIN_SRC   := bindings/main.c bindings/line.c
BIND_OBJ   := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAIN_SRC),$(wildcard bindings/*.c)))
MAIN_OBJ   := $(MAIN_SRC:%.c=$(BUILD)/%.o)
C_TESTS    := $(patsubst spec/engine/%.c,$(BUILD)/spec/%,$(wildcard spec/engine/*_test.c))

all: $(BUILD)/kitlua $(BUILD)/kit.so

# Called from translated code that saves no vector registers and leaves the direction flag alone.
$(BUILD)/engine/ir/callstack.o: CFLAGS += -mgeneral-regs-only -fno-stack-protector -mmemcpy-strategy=unrolled_loop:-1:noalign -mmemset-strategy=unrolled_loop:-1:noalign
$(BUILD)/engine/%.o: engine/%.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(CFLAGS) $(ENGINE_INC) -c $< -o $@
$(BUILD)/bindings/%.o: bindings/%.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(CFLAGS) $(LUA_INC) $(PLACES) -c $< -o $@
$(BUILD)/libkit.a: $(ENGINE_OBJ)
	rm -f $@ && ar rcs $@ $^
$(BUILD)/kitlua: $(MAIN_OBJ) $(BIND_OBJ) $(BUILD)/libkit.a
	$(CC) $(SAN) -o $@ $^ $(LIBS) -llua5.4 -ledit -Wl,-E
$(BUILD)/kit.so: $(BIND_OBJ) $(BUILD)/libkit.a
	$(CC) $(SAN) -shared -o $@ $^ $(LIBS)
$(BUILD)/spec/%_test: spec/engine/%_test.c $(BUILD)/libkit.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ENGINE_INC) -o $@ $< $(BUILD)/libkit.a $(LIBS)

-include $(ENGINE_OBJ:.o=.d) $(BIND_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(C_TESTS:=.d)
-include spec/guests/guests.mk
-include spec/judges/judges.mk
-include spec/judges/x64.mk
-include spec/tools/tools.mk
-include spec/fuzz/fuzz.mk
-include bench/bench.mk

# ---- setting up: what is missing from Debian's packages ----
PACKAGES := pkg-config lua5.4 liblua5.4-dev libdwarf-dev libelf-dev libedit-dev lua-lpeg lua-cjson lua-busted lua-check clang-format \
            libzydis-dev libcapstone-dev zlib1g-dev qemu-user gcc-riscv64-linux-gnu g++-riscv64-linux-gnu libc6-dev-riscv64-cross binutils-riscv64-linux-gnu \
            libc6-dev gcc-12-source csmith libcsmith-dev tcl xz-utils bzip2 strace procps
# What else the x86-64 judges of `make verify` run.
X64_PACKAGES := bash grep sed mawk gawk findutils tar gzip bzip2 xz-utils zstd perl python3 libpython3.11-testsuite lua5.4 sqlite3 git gcc g++ \
                openssl curl nodejs gdb busybox-static linux-source-6.1 valgrind
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
deps:
	@missing=""; for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "installing:$$missing"; $(SUDO) apt-get update -q && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; fi

# ---- jobs ----
# kit.so of a sanitizer build needs the runtime in the process that loads it.
PRELOAD_asan := env LD_PRELOAD=$(shell $(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0
BUSTED := $(PRELOAD_$(MODE)) lua5.4 /usr/bin/busted --lua=lua5.4 --helper=spec/helper.lua --output=spec/reporter.lua
demo: deps
	@$(MAKE) --no-print-directory -s all
	$(BUILD)/kitlua callgrind --out=$(BUILD)/callgrind.out.demo -- ls -l /usr/bin >/dev/null
test: deps
	@$(MAKE) --no-print-directory all guests c-tests
	$(BUSTED) --exclude-tags=verify $(SPECS)
verify: PACKAGES += $(X64_PACKAGES)
verify: deps
	@$(MAKE) --no-print-directory all guests c-tests
	{ date -u '+%Y-%m-%d, make verify:'; $(BUSTED) --tags=verify $(SPECS); echo "exit status $$?"; } 2>&1 | tee doc/figures.txt; tail -1 doc/figures.txt | grep -q 'status 0$$'
check: deps
	clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h' | grep -v '^spec/guests/')
	luacheck -q --codes lib scripts examples spec bench
	@$(MAKE) --no-print-directory all
	lua5.4 doc/gen.lua --check
bench: PACKAGES += valgrind
bench: deps
	@$(MAKE) --no-print-directory all
	lua5.4 bench/bench.lua $(BENCH_ARGS)
format:
	clang-format -i $$(git ls-files '*.c' '*.h' | grep -v '^spec/guests/')
doc:
	lua5.4 doc/gen.lua
c-tests: $(C_TESTS)
install: all
	install -D $(BUILD)/kitlua $(DESTDIR)$(PREFIX)/bin/kitlua
	install -D $(BUILD)/kit.so $(DESTDIR)$(PREFIX)/lib/lua/5.4/kit.so
	for d in scripts lib lib/kit examples; do install -d $(DESTDIR)$(PREFIX)/share/kitlua/$$d && \
	find $$d -maxdepth 1 -type f -name '*.lua' -exec install -m644 {} $(DESTDIR)$(PREFIX)/share/kitlua/$$d/ \; ; done
clean:
	rm -rf $(BUILD)

.PHONY: all deps demo test verify check bench format doc c-tests install clean
.DEFAULT_GOAL := all
