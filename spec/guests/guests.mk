# The guest programs. spec/guests/*.{c,cc} run on every architecture, spec/guests/ARCH/*.{c,S} on one.
#   $(BUILD)/guests/ARCH/NAME       static (assembly files: without libc)
#   $(BUILD)/guests/ARCH/NAME-dyn   dynamically linked
#   $(BUILD)/guests/ARCH/qemu/NAME  a script that runs NAME under qemu-user, for guests that exec under it
#   $(BUILD)/guests/ARCH/NAME-pie   static-pie (assembly only: Debian's cross libc has no rcrt1.o)
# A new architecture is one row of a few variables and its name in GUEST_ARCHES.

GUEST_ARCHES ?= rv64 x64
GUEST_CC_rv64 := riscv64-linux-gnu-gcc
GUEST_CC_x64  := gcc
GUEST_CC_aa64 := aarch64-linux-gnu-gcc
GUEST_CFLAGS  := -std=gnu11 -O2 -g -Wall -Wextra -D_GNU_SOURCE -pthread -Ispec/guests
GUEST_LIBS    := -lm
GUEST_QEMU_rv64 := /usr/bin/qemu-riscv64 -L /usr/riscv64-linux-gnu
GUEST_QEMU_x64  := /usr/bin/qemu-x86_64
GUEST_QEMU_aa64 := /usr/bin/qemu-aarch64 -L /usr/aarch64-linux-gnu
GUEST_EXECS   := args exitcode hello
GUEST_PIES_rv64 := asm_hello
GUEST_HDR     := spec/guests/guest.h


# Guests and judges do not depend on how the engine is built: build/asan and the like share build's.
ifeq ($(BUILD),build/$(MODE))
$(shell mkdir -p $(BUILD) build/guests build/judges build/src && \
  for d in guests judges src; do ln -sfn ../$$d $(BUILD)/$$d; done)
endif

guest_names = $(basename $(notdir $(wildcard $(1))))

# $(1) = architecture
define guest_rules
GUEST_C_$(1) := $$(call guest_names,spec/guests/*.c spec/guests/*.cc spec/guests/$(1)/*.c)
GUEST_S_$(1) := $$(call guest_names,spec/guests/$(1)/*.S)
GUESTS_$(1)  := $$(addprefix $$(BUILD)/guests/$(1)/,$$(GUEST_C_$(1)) $$(GUEST_C_$(1):%=%-dyn) \
                $$(GUEST_S_$(1)) $$(GUEST_PIES_$(1):%=%-pie) $$(GUEST_EXECS:%=qemu/%))
$$(BUILD)/guests/$(1)/qemu/%: | $$(BUILD)/guests/$(1)
	@mkdir -p $$(@D)
	printf '#!/bin/sh\nexec $$(GUEST_QEMU_$(1)) %s "$$$$@"\n' $$(abspath $$(BUILD))/guests/$(1)/$$* >$$@ && chmod +x $$@
$$(BUILD)/guests/$(1)/%: spec/guests/%.c $$(GUEST_HDR) | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) $$(GUEST_CFLAGS) -static $$< -o $$@ $$(GUEST_LIBS)
$$(BUILD)/guests/$(1)/%-dyn: spec/guests/%.c $$(GUEST_HDR) | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) $$(GUEST_CFLAGS) $$< -o $$@ $$(GUEST_LIBS)
$$(BUILD)/guests/$(1)/%: spec/guests/%.cc | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1):gcc=g++) -O2 -g -Wall -Wextra -pthread -static $$< -o $$@
$$(BUILD)/guests/$(1)/%-dyn: spec/guests/%.cc | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1):gcc=g++) -O2 -g -Wall -Wextra -pthread $$< -o $$@
$$(BUILD)/guests/$(1)/%: spec/guests/$(1)/%.c $$(GUEST_HDR) | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) $$(GUEST_CFLAGS) -static $$< -o $$@ $$(GUEST_LIBS)
$$(BUILD)/guests/$(1)/%-dyn: spec/guests/$(1)/%.c $$(GUEST_HDR) | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) $$(GUEST_CFLAGS) $$< -o $$@ $$(GUEST_LIBS)
$$(BUILD)/guests/$(1)/%: spec/guests/$(1)/%.S | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) -g -nostdlib -static $$< -o $$@
$$(BUILD)/guests/$(1)/%-pie: spec/guests/$(1)/%.S | $$(BUILD)/guests/$(1)
	$$(GUEST_CC_$(1)) -g -nostdlib -static-pie -Wl,--no-dynamic-linker $$< -o $$@
$$(BUILD)/guests/$(1):
	mkdir -p $$@
endef
$(foreach arch,$(GUEST_ARCHES),$(eval $(call guest_rules,$(arch))))

.PHONY: guests
guests: $(foreach arch,$(GUEST_ARCHES),$(GUESTS_$(arch)))
