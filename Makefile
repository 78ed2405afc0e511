# Two commands do everything: `make demo` and `make test`. The rest are shortcuts; `make help` lists them.
SHELL := /bin/bash
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
NINJA = ninja -C $(BUILD) -j $(JOBS)

.PHONY: help demo test build setup trainer asan tsan fuzz golden exactness bench policies format tidy signature clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: build ## install what is missing, build, fetch the default model, answer a prompt plain and drafted
	@scripts/demo.sh $(BUILD)/talon

test: setup ## install what is missing, build, run all tests of the default set
	@scripts/test.sh $(BUILD) $(JOBS)

setup: ## install what is missing (apt; sudo is used when not root)
	@scripts/setup.sh

build: setup ## the binary: build/talon
	@cmake -S . -B $(BUILD) -G Ninja -DTALON_TESTS=OFF $(CMAKE_FLAGS) > $(BUILD).log 2>&1 || (cat $(BUILD).log; exit 1)
	@rm -f $(BUILD).log
	@$(NINJA) --quiet talon

trainer: ## build/talon-train beside build/talon, for `talon train head` (installs libtorch, about 260 MB)
	@scripts/setup.sh train
	@cmake -S . -B $(BUILD) -G Ninja -DTALON_TRAIN=ON $(CMAKE_FLAGS) > $(BUILD).log 2>&1 || (cat $(BUILD).log; exit 1)
	@rm -f $(BUILD).log
	@$(NINJA) --quiet talon talon-train

asan: setup ## unit and conformance tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/sanitize.sh address,undefined build-asan $(JOBS)

tsan: setup ## engine and thread pool tests under ThreadSanitizer
	@scripts/sanitize.sh thread build-tsan $(JOBS) 'ThreadPool|Engine'

fuzz: setup ## libFuzzer on every parser, FUZZ_SECONDS each (default 600)
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),600)

golden: setup ## every golden prompt on every backend, TinyLlama included (long)
	@cmake -S . -B $(BUILD) -G Ninja -DTALON_TESTS=ON > /dev/null && $(NINJA) --quiet talon golden_full_test
	@for model in smollm2 tinyllama stories15m; do $(BUILD)/talon pull $$model --models downloads || exit 1; done
	@$(BUILD)/tests/golden/golden_full_test

exactness: setup ## the full product of the exactness test on SmolLM2 (an hour; goes on where it was stopped)
	@cmake -S . -B $(BUILD) -G Ninja -DTALON_TESTS=ON > /dev/null && $(NINJA) --quiet talon exactness_full
	@$(BUILD)/talon pull smollm2 --models downloads && $(BUILD)/tests/conformance/exactness_full $(BUILD)/exactness.txt

bench: build ## the table of the README: plain and drafted decoding beside llama.cpp in one interleaved run
	@scripts/bench.sh $(BUILD)/talon

policies: trainer ## every drafting policy at its best setting, in interleaved runs (hours; goes on where it was stopped)
	@scripts/compare_policies.sh $(BUILD)/talon $(BUILD)/talon-train

signature: build ## one hash of what the reference backend decodes
	@$(BUILD)/talon bench signature

format: ## clang-format over src, tests and bench
	@scripts/setup.sh format
	@git ls-files '*.cpp' '*.h' | xargs clang-format-14 -i

tidy: ## clang-tidy over src
	@scripts/setup.sh format
	@cmake -S . -B build-tidy -G Ninja > /dev/null && git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build-tidy --quiet

clean: ## remove what was built (not what was downloaded)
	@rm -rf build build-* src/text/bridge/target
