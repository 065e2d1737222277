# The front door. Meson builds (meson.build); tools/build keeps its directories, build/<flavour>:
#   native  what runs on the host        musl  what runs inside a sandbox, static
#   asan    native + ASan + UBSan        fuzz  clang + libFuzzer
# A compiler's warnings are shown; with WERROR=1 they end the build. CI, lint, asan and fuzz ask for
# that; other users may have a newer compiler, with new warnings.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.NOTPARALLEL: # the steps share apt and build/; what is worth it runs in parallel inside them

PREFIX  ?= /usr/local
DESTDIR ?=
J       ?= $(shell nproc)
T       ?= 60
WERROR  ?=

BUILD = tools/build --jobs=$(J) --prefix=$(PREFIX) $(if $(filter-out 0,$(WERROR)),--werror)
deps  = build/deps/$(1).ok

# npm takes PREFIX from the environment for its own.
unexport PREFIX DESTDIR J T F B P A I N WERROR

.PHONY: all demo run images examples check test test-asan test-vm drill bench fuzz lint install uninstall clean help as-root

all: $(call deps,build) ## build every program into build/bin (J=jobs)
	@$(BUILD) native musl

demo: as-root $(call deps,build) ## start a server, lead a sandbox through its life, clean up; root
	@$(BUILD) --programs --log=build/demo-build.log native musl
	@tools/demo

run: as-root $(call deps,build) ## start the server in the foreground, show address and key; root (A=options)
	@$(BUILD) --programs --log=build/demo-build.log native musl
	@tools/run $(A)

images: as-root ## build our own images, import them into a running server; root (I=name, A=options)
	@tools/images $(A) $(I)

examples: as-root $(call deps,test) $(call deps,drill) ## run the examples and check what they print; root (A=--images: images must be there)
	@$(BUILD) native musl
	@mkdir -p build/examples
	@EXAMPLE_PICTURES=$(CURDIR)/build/examples tools/test --name=examples build/native
	@tests/drill/examples $(A)

check: $(call deps,build) ## unit tests and fuzz corpora only: no VM, no further packages (N=text for some)
	@$(BUILD) native musl
	@tools/test --suite=unit --suite=fuzz $(if $(N),--name='$(N)') build/native build/musl

test: $(call deps,test) $(call deps,vm) ## run all tests; the last line counts them (N=text for some)
	@$(BUILD) native musl
	@tools/test $(if $(N),--name='$(N)') build/native build/musl

test-asan: $(call deps,test) ## the tests of the host programs, under ASan and UBSan
	@$(BUILD) musl asan
	@ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=1:strict_string_checks=1 \
	 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 tools/test --slow=6 build/asan

test-vm: $(call deps,vm) ## tests on a stock Debian kernel with cgroup v2, in QEMU (P=name for some)
	@$(BUILD) native musl
	@tests/vm/run.py --must-run $(P)

drill: $(call deps,test) $(call deps,vm) $(call deps,drill) ## long fault and soak runs: every program in tests/drill
	@$(BUILD) native musl
	@tools/each "long run in tests/drill yet" tests/drill/*

bench: $(call deps,bench) ## measure against alternatives (B=name for one)
	@$(BUILD) native musl
	@tools/each "benchmark$(if $(B), named $(B)) in bench yet" bench/$(or $(B),*)/run

fuzz: $(call deps,fuzz) ## hunt in every parser (T=seconds each, F=name for one)
	@$(BUILD) fuzz
	@tools/fuzz --seconds=$(T) $(F)

lint: WERROR = 1
lint: $(call deps,lint) ## formatting, static analysis, house rules
	@$(BUILD) native musl
	@tools/lint

install: $(call deps,build) ## install programs, units, documents, image scripts (PREFIX=/usr/local, DESTDIR=)
	@$(BUILD) --programs native musl
	@tools/install --prefix="$(PREFIX)" --destdir="$(DESTDIR)"

uninstall: ## remove what make install installed (with the same PREFIX and DESTDIR)
	@tools/install --remove --prefix="$(PREFIX)" --destdir="$(DESTDIR)"

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	    while IFS='|' read -r name text; do printf 'make %-10s %s\n' "$$name" "$$text"; done

# Asked before a build that takes minutes.
as-root:
	@[ "$$(id -u)" = 0 ] || { echo "sandboxes need root: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

# A group is checked, and what it lacks installed, once per change of what it needs.
$(call deps,build): tools/deps console/package-lock.json
$(call deps,test): tests/requirements.txt $(wildcard tests/requirements-*.txt)
$(call deps,test): tests/console/package.json tests/node/package.json tests/go/go.mod sdks/javascript/package.json
$(call deps,test): tools/build-kotlin sdks/kotlin/pom.xml $(wildcard sdks/kotlin/*/pom.xml)
$(call deps,bench): bench/requirements.txt
$(foreach g,test vm drill bench fuzz lint,$(call deps,$(g))): tools/deps $(call deps,build)
build/deps/%.ok:
	@tools/deps $*
