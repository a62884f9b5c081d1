# What the judges of the x86-64 guest run (x64_*_spec.lua): programs built with this machine's own compiler.
X64_TOOLS := $(BUILD)/spec/tools
X64_WARN := -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE

$(X64_TOOLS)/x64_singlestep: spec/tools/x64_singlestep.c
	@mkdir -p $(@D)
	$(CC) $(X64_WARN) -o $@ $<
$(X64_TOOLS)/x64_machine: spec/tools/x64_machine.c
	@mkdir -p $(@D)
	$(CC) $(X64_WARN) -static -o $@ $<
$(X64_TOOLS)/x64_counts: spec/tools/x64_counts.S
	@mkdir -p $(@D)
	$(CC) -nostdlib -static -o $@ $<
x64-counting: $(addprefix $(X64_TOOLS)/,x64_singlestep x64_machine x64_counts)
.PHONY: x64-counting
