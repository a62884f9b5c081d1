# kitlua. `make demo` sets up everything and shows a profile; `make test` sets up everything and passes.
#   make            build/libkit.a build/kitlua build/kit.so
#   make MODE=asan|ubsan|debug ...     BUILD=DIR: build elsewhere
#   make deps demo test verify check bench install (PREFIX, DESTDIR)

MODE   ?= release
BUILD  ?= $(if $(filter release,$(MODE)),build,build/$(MODE))
PREFIX ?= /usr/local
CC     := gcc

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
        -Wwrite-strings -Wundef -Wno-missing-field-initializers
OPT_release := -O2
OPT_debug   := -O0 -DKIT_DEBUG
OPT_asan    := -O1 -fsanitize=address -fno-omit-frame-pointer
OPT_ubsan   := -O1 -fsanitize=undefined -fno-sanitize-recover=undefined
SAN         := $(filter -fsanitize=%,$(OPT_$(MODE)))
CFLAGS  := -std=gnu11 -g -fPIC -fvisibility=hidden $(OPT_$(MODE)) $(WARN) -D_GNU_SOURCE -MMD -MP
ENGINE_INC := -Iengine -Iengine/include
LUA_INC := -Iengine/include $(shell pkg-config --cflags lua5.4 2>/dev/null)
LIBS    := -ldwarf -lcapstone -lpthread -lm -ldl

ENGINE_SRC := $(wildcard engine/*/*.c engine/*/*/*.c)
ENGINE_OBJ := $(ENGINE_SRC:%.c=$(BUILD)/%.o)
BIND_OBJ   := $(patsubst %.c,$(BUILD)/%.o,$(filter-out bindings/main.c,$(wildcard bindings/*.c)))
MAIN_OBJ   := $(BUILD)/bindings/main.o

all: $(BUILD)/kitlua $(BUILD)/kit.so

$(BUILD)/engine/%.o: engine/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ENGINE_INC) -c $< -o $@
$(BUILD)/bindings/%.o: bindings/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LUA_INC) -DKIT_PREFIX='"$(PREFIX)"' -DKIT_SOURCE='"$(CURDIR)"' -c $< -o $@

$(BUILD)/libkit.a: $(ENGINE_OBJ)
	rm -f $@ && ar rcs $@ $^
$(BUILD)/kitlua: $(MAIN_OBJ) $(BIND_OBJ) $(BUILD)/libkit.a
	$(CC) $(SAN) -o $@ $^ $(LIBS) $(shell pkg-config --libs lua5.4 2>/dev/null) -Wl,-E
$(BUILD)/kit.so: $(BIND_OBJ) $(BUILD)/libkit.a
	$(CC) $(SAN) -shared -o $@ $^ $(LIBS)

-include $(ENGINE_OBJ:.o=.d) $(BIND_OBJ:.o=.d) $(MAIN_OBJ:.o=.d)
-include spec/guests/guests.mk

.PHONY: all clean
clean:
	rm -rf $(BUILD)
.DEFAULT_GOAL := all
