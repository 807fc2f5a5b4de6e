# The short way to everything; CMake does the work (CMakePresets.json lists the
# presets). Each target sees to its own set-up, on a fresh Debian-like machine too.
#
#   make bench        build/warpheap bench: on the GPU, or on the simulated device.
#                     BENCH_ARGS adds arguments: make bench BENCH_ARGS="--case churn"
#   make test         builds everything and runs all tests
#   make hostile      the tests of code that runs on a device, with tiny constants, under
#                     AddressSanitizer and UndefinedBehaviorSanitizer; but for those of the
#                     benchmark's own code, which make nightly runs
#   make tsan         the same tests under ThreadSanitizer, with the constants of a release
#   make asan         as make hostile, with the constants of a release
#   make sanitizers   hostile and tsan, as CI does
#   make nightly      conform, stress, fault and streams over NIGHTLY_SEEDS=2000 seeds, other
#                     ones each day, as released, a twentieth of them hostile, a fortieth under
#                     asan and tsan each; what make test leaves out, or does in brief; and, where
#                     there is nvcc, make cuda: hours
#   make explore      tests over more and more seeds and policies for EXPLORE_SECONDS=600, other
#                     ones in each run; a failing schedule is made short (tools/explore.py)
#   make fuzz         libFuzzer's targets of tests/fuzz, FUZZ_SECONDS=20 each; what fails is kept in
#                     build-fuzz/fuzz
#   make mutants      breaks the library in the ways of tests/mutants/list.toml, one at a time, and
#                     says which tests notice: an hour or more; goes on where it was ended
#   make cuda-kinds   compiles device code for sm_90 (needs nvcc, no GPU): the library's and
#                     the stress test's of an allocator of each kind, most of gallatin.
#                     Looks for what the compiler got wrong there
#                     (tools/sass_votes.py; with pip's disassembler)
#   make cuda         everything of an allocator of each kind, and the whole program for sm_90;
#                     the benchmark of them must fit sm_75, too
#   make install      PREFIX=/usr/local, DESTDIR
#   make dist         warpheap-VERSION.tar.gz of HEAD in DIST=., which builds without git
#   make tidy         the rules that tests/tidy keeps, in seconds; a part of make test
#   make format-check, make format, make clean
#
# WH_TEST_SEEDS=N: how many seeds a seeded test tries (10; 2 under sanitizers; fewer where a
# seed takes long). With it conform also runs all that checked builds otherwise leave out.

PREFIX ?= /usr/local
DIST ?= .
VERSION = $(shell sed -n 's,^project.warpheap VERSION \([0-9.]*\).*,\1,p' CMakeLists.txt)
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# One more than there are processors: some tests wait for most of their time.
TESTS_AT_ONCE ?= $(shell expr $(JOBS) + 1)
NIGHTLY_SEEDS ?= 2000
NIGHTLY_FIRST ?= $(shell expr $$(date +%s) / 86400 '*' $(NIGHTLY_SEEDS))
EXPLORE_SECONDS ?= 600
FUZZ_SECONDS ?= 20
SANITIZERS := hostile tsan
NVCC := $(shell command -v nvcc || echo /usr/local/cuda/bin/nvcc)
# Allocators of each kind; of these the library and the stress test is compiled.
KINDS := tessera gallatin ouro_vl_c corw rwmalloc cfmmalloc halloc kma
KIND_NAMES := tessera;gallatin;ouro-vl-c;corw;rw-malloc;cfmmalloc;halloc;kma
# Other parts: of gallatin, which takes seconds; of tessera they take minutes, in `make cuda`.
OTHER_PARTS := wh_bench_kernels wh_workload_kernels conform_kernels
# Ninja where there is one; the shell looks, after set-up may have installed it.
CONFIGURE = @command -v ninja >/dev/null && export CMAKE_GENERATOR="$${CMAKE_GENERATOR:-Ninja}"; \
    cmake --preset
SOURCES = git ls-files -co --exclude-standard '*.c' '*.h' '*.cu' '*.hpp' '*.cpp'

.PHONY: all help bench test sanitizers asan $(SANITIZERS) nightly programs explore fuzz \
    mutants cuda cuda-kinds install dist format format-check tidy clean

all:
	@scripts/setup build
	$(CONFIGURE) release
	cmake --build build --parallel $(JOBS) --target warpheap_cli

# This file's head.
help:
	@sed -n '/^#   make/,/^$$/{s/^# \{0,1\}//;p}' Makefile

bench: all
	build/warpheap bench $(BENCH_ARGS)

test:
	@scripts/setup test
	$(CONFIGURE) release
	cmake --build build --parallel $(JOBS)
	ctest --preset release --parallel $(TESTS_AT_ONCE)

# One after the other, and all of them even if one fails.
sanitizers:
	@failed=; for preset in $(SANITIZERS); do \
	    $(MAKE) --no-print-directory $$preset || failed="$$failed $$preset"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

asan $(SANITIZERS):
	@scripts/setup test
	@if [ $@ = tsan ]; then scripts/setup sanitizers; fi
	$(CONFIGURE) $@
	cmake --build build-$@ --parallel $(JOBS)
	ctest --preset $@ --parallel $(TESTS_AT_ONCE)

# Which seeds is printed: a failure also names its own.
nightly:
	@scripts/setup sanitizers
	@echo "seeds from $(NIGHTLY_FIRST)"
	@failed=; for part in release:1 hostile:20 asan:40 tsan:40; do \
	    preset=$${part%:*}; \
	    $(MAKE) --no-print-directory nightly-$$preset NIGHTLY_FIRST=$(NIGHTLY_FIRST) \
	        SEEDS=$$(( ($(NIGHTLY_SEEDS) + $${part#*:} - 1) / $${part#*:} )) \
	        || failed="$$failed $$preset"; \
	done; \
	$(MAKE) --no-print-directory programs || failed="$$failed programs"; \
	if [ -x "$(NVCC)" ]; then $(MAKE) --no-print-directory cuda || failed="$$failed cuda"; fi; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

nightly-%:
	$(CONFIGURE) $* -DWARPHEAP_NIGHTLY=ON
	WH_TEST_SEEDS=$(SEEDS) WH_TEST_FIRST_SEED=$(NIGHTLY_FIRST) CTEST_PARALLEL_LEVEL=$(JOBS) \
	    cmake --build --preset $* --parallel $(JOBS) --target nightly

# The benchmark and its kernels of every allocator, a third of what there is to compile; examples;
# graphs, operators and trees on more allocators.
programs: $(SANITIZERS:%=programs-%)
programs-%:
	$(CONFIGURE) $* -DWARPHEAP_PROGRAM=ON -DWARPHEAP_NIGHTLY=ON
	cmake --build build-$* --parallel $(JOBS)
	ctest --preset $* --parallel $(JOBS) \
	    --tests-regex '^((graph|bench|example|kdtree)[.]|dgraph[.]allocators|ops[.]group)'

# The folder build/explore remembers which seeds were tried.
explore:
	@scripts/setup test
	$(CONFIGURE) release
	cmake --build build --parallel $(JOBS)
	python3 tools/explore.py --build build --jobs $(JOBS) --seconds $(EXPLORE_SECONDS) \
	    $(EXPLORE_ARGS)

fuzz:
	@scripts/setup sanitizers
	$(CONFIGURE) fuzz -DFUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build build-fuzz --parallel $(JOBS) --target fuzz

mutants:
	@scripts/setup sanitizers
	python3 tools/mutate.py --jobs $(JOBS) $(MUTANTS)

cuda-kinds:
	@scripts/setup test
	$(CONFIGURE) cuda -DWARPHEAP_ALLOCATORS="$(KIND_NAMES)"
	cmake --build build-cuda --parallel $(JOBS) --target \
	    atomics_probe floor_probe lanes_probe wh_cuda_objects warpheap_fatbins gpu_linked \
	    $(foreach part,wh_library_objects stress_kernels,$(KINDS:%=$(part)_%_cuda)) \
	    $(OTHER_PARTS:%=%_gallatin_cuda)
	@[ -d build-cuda/sass ] || python3 -m pip install --quiet --disable-pip-version-check \
	    --root-user-action ignore --target build-cuda/sass \
	    nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm || true
	PYTHONPATH=build-cuda/sass python3 tools/sass_votes.py \
	    $$(find build-cuda/tests -path '*stress_kernels_*_cuda.dir/*' -name '*.o') || [ $$? -eq 77 ]

cuda: cuda-kinds
	$(CONFIGURE) cuda -DWARPHEAP_ALLOCATORS=all
	cmake --build build-cuda --parallel $(JOBS) --target warpheap_cli \
	    $(KINDS:%=conform_kernels_%_cuda)
	$(CONFIGURE) cuda75
	cmake --build build-cuda75 --parallel $(JOBS) --target $(KINDS:%=wh_bench_kernels_%_cuda)

install:
	@scripts/setup build
	$(CONFIGURE) release
	cmake --build build --parallel $(JOBS) --target warpheap_cli warpheap_installed
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

# The commit goes with it (cmake/archive_commit).
dist:
	git -c safe.directory='*' archive --format=tar.gz --prefix=warpheap-$(VERSION)/ \
	    --output="$(DIST)/warpheap-$(VERSION).tar.gz" HEAD

format:
	$(SOURCES) | xargs clang-format -i

format-check:
	$(SOURCES) | xargs clang-format --dry-run -Werror

tidy:
	python3 tests/tidy/tidy.py --modules build/tests/wheels/tidy .

clean:
	rm -rf build build-*
