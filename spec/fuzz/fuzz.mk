# Fuzzers: spec/fuzz/NAME.c, each a program with a main of its own. make MODE=asan fuzz
FUZZERS := $(patsubst spec/fuzz/%.c,$(BUILD)/spec/fuzz/%,$(wildcard spec/fuzz/*.c))
$(BUILD)/spec/fuzz/%: spec/fuzz/%.c $(BUILD)/libkit.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ENGINE_INC) -o $@ $< $(BUILD)/libkit.a $(LIBS)
-include $(FUZZERS:=.d)
fuzz: $(FUZZERS)
.PHONY: fuzz
