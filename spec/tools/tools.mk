# Programs that the specs run: spec/tools/*.c with a main on the host, and the guest sides of sweeps.
TOOLS := $(BUILD)/spec/tools
RV64_BARE := -O2 -Wall -Wextra -Werror -ffreestanding -nostdlib -static -fno-pic -no-pie -mcmodel=medlow -mno-relax \
             -fno-stack-protector -fno-tree-loop-distribute-patterns -Wl,--no-warn-rwx-segments

$(TOOLS)/rv64_disasm $(TOOLS)/rv64_exec_host $(TOOLS)/jit_code: $(TOOLS)/%: spec/tools/%.c $(BUILD)/libkit.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ENGINE_INC) -Ispec/tools -o $@ $< $(BUILD)/libkit.a $(LIBS)
$(TOOLS)/rv64_exec_guest: spec/tools/rv64_exec_guest.c spec/tools/rv64_exec_stub.S spec/tools/rv64_exec.h spec/tools/rv64_gen.h \
                          engine/guest/rv64/insns.def
	@mkdir -p $(@D)
	riscv64-linux-gnu-gcc -std=gnu11 $(RV64_BARE) -Iengine -Ispec/tools -o $@ $(filter %.c %.S,$^)
$(TOOLS)/rv64_full_region: spec/tools/rv64_full_region.S
	@mkdir -p $(@D)
	riscv64-linux-gnu-gcc -nostdlib -static -o $@ $<
$(TOOLS)/rv64_csr $(TOOLS)/rv64_signal_frame: $(TOOLS)/%: spec/tools/%.c
	@mkdir -p $(@D)
	riscv64-linux-gnu-gcc -O1 -Wall -Wextra -Werror -static -o $@ $<
-include $(TOOLS)/jit_code.d $(TOOLS)/rv64_disasm.d $(TOOLS)/rv64_exec_host.d

# kitlua with instrumentation compiled out.
$(BUILD)/kitlua-bare: engine/core/instrument.c $(BUILD)/kitlua
	@mkdir -p $(TOOLS)
	$(CC) $(CFLAGS) $(ENGINE_INC) -DKIT_BARE -MF $(TOOLS)/bare.d -c $< -o $(TOOLS)/instrument-bare.o
	$(CC) $(SAN) -o $@ $(MAIN_OBJ) $(BIND_OBJ) $(TOOLS)/instrument-bare.o $(filter-out %/core/instrument.o,$(ENGINE_OBJ)) $(LIBS) -llua5.4 -ledit -Wl,-E

rv64-tools: $(BUILD)/kitlua-bare $(addprefix $(TOOLS)/,jit_code rv64_disasm rv64_exec_host rv64_exec_guest rv64_full_region rv64_csr \
  rv64_signal_frame)
.PHONY: rv64-tools

$(TOOLS)/os_tables: spec/tools/os_tables.c engine/os/flags.def engine/os/structs.def
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -Wall -Wextra -D_GNU_SOURCE -Iengine -o $@ $<
$(TOOLS)/os_tables-rv64: spec/tools/os_tables.c engine/os/flags.def engine/os/structs.def
	@mkdir -p $(@D)
	riscv64-linux-gnu-gcc -std=gnu11 -Wall -Wextra -D_GNU_SOURCE -Iengine -static -o $@ $<
$(TOOLS)/os_noise-rv64: spec/tools/os_noise.c
	@mkdir -p $(@D)
	riscv64-linux-gnu-gcc -std=gnu11 -O1 -Wall -Wextra -D_GNU_SOURCE -static -o $@ $<
os-tools: $(TOOLS)/os_tables $(TOOLS)/os_tables-rv64 $(TOOLS)/os_noise-rv64
.PHONY: os-tools
