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

# The oracle: its runner has neither libc nor vector instructions.
$(X64_TOOLS)/x64_oracle: spec/tools/x64_oracle.c spec/tools/x64_oracle_stub.S spec/tools/x64_oracle.h
	@mkdir -p $(@D)
	$(CC) $(X64_WARN) -mgeneral-regs-only -ffreestanding -nostdlib -static -fno-pic -no-pie -fno-stack-protector \
	  -fno-tree-loop-distribute-patterns -fcf-protection=none -o $@ $(filter %.c %.S,$^)
$(X64_TOOLS)/x64_oracle_gen: spec/tools/x64_oracle_gen.c spec/tools/x64_oracle.h
	@mkdir -p $(@D)
	$(CC) $(X64_WARN) -o $@ $< -lZydis
x64-oracle: $(addprefix $(X64_TOOLS)/,x64_oracle x64_oracle_gen)
.PHONY: x64-oracle
