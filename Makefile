# Two commands do everything: `make demo` and `make test`. The rest are shortcuts; `make help` lists them.
SHELL := /bin/bash
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
export CMAKE_FLAGS
# Where `talon` and tests find models, whatever the user's own place is.
export TALON_MODELS := $(CURDIR)/downloads
NINJA = ninja -C $(BUILD) -j $(JOBS) --quiet
# Configures $(BUILD) with the flags given; shows the log of a failure only.
CONFIGURE = configure() { cmake -S . -B $(BUILD) -G Ninja "$$@" $(CMAKE_FLAGS) > $(BUILD).log 2>&1 || { cat $(BUILD).log >&2; return 1; }; \
  mv $(BUILD).log $(BUILD)/configure.log; }; configure

.PHONY: help demo test clients openapi endurance crowd deploy-check image-check service-check quick build setup trainer asan tsan library-sanitize fuzz fuzz-long golden exactness bench converted llama-source field learn mixtures policies picture images image-bench pages page-test format check bridge-test tidy \
  signature install install-library library-test deb python python-test notebook clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: ## install what is missing, build, fetch the default model, answer a prompt plain and drafted
	@scripts/setup.sh build pull
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh $(BUILD)/talon

test: setup ## install what is missing, build, run all tests of the default set (20 minutes on two cores)
	@scripts/test.sh $(BUILD) $(JOBS)

clients: build ## real clients in Python and Node against `talon serve` (apt; installs them with pip and npm)
	@scripts/setup.sh venv
	@scripts/clients.sh $(BUILD)

openapi: build ## EXAMPLES (default 60; 18000: 100,000 in all) requests a path of OpenAI's description, a third for the others, against `talon serve` (apt, pip)
	@scripts/setup.sh venv
	@scripts/openapi.sh $(BUILD) $(or $(EXAMPLES),60)

endurance: build ## mixed traffic with faults against `talon serve` for MINUTES (default 60): texts, calls, memory, acceptance; MODEL=smollm2: a pulled one
	@python3 tests/endurance/run.py $(BUILD)/talon $(or $(MODEL),tests/data/models/stories260K.bin) $(or $(MINUTES),60) $(BUILD)/endurance

crowd: build ## 204 requests of all kinds, paths and lengths to SmolLM2 at 1, 4 and 16 at once and in a small cache: texts are those of `talon run`
	@$(BUILD)/talon pull smollm2 --models downloads
	@python3 tests/crowd/run.py $(BUILD)/talon smollm2 $(BUILD)/crowd

deploy-check: build ## packaging/ as it stands: HAProxy and Prometheus with two servers, one of which is ended (apt)
	@scripts/setup.sh deploy
	@python3 tests/deploy/run.py $(BUILD)/talon tests/data/models/stories260K.bin $(BUILD)/deploy

image-check: build ## the steps of packaging/docker/Dockerfile in roots of debootstrap (for root), and the server that they make (apt)
	@scripts/setup.sh image
	@$(BUILD)/talon pull smollm2 --models downloads
	@python3 tests/deploy/image_steps.py downloads $(BUILD)/image

service-check: deb ## the Debian packages in a machine that systemd-nspawn boots: the service of packaging/systemd (for root; apt)
	@scripts/setup.sh service
	@$(BUILD)/talon pull smollm2 --models downloads
	@python3 tests/deploy/service.py $(BUILD)/talon $(BUILD) downloads $(BUILD)/service

quick: ## build, run all but the slow suites, one process per test program (under 3 minutes after a build)
	@scripts/test.sh $(BUILD) $(JOBS) quick

setup: ## install what is missing (apt; sudo is used when not root)
	@scripts/setup.sh

build: ## the binary: build/talon (installs nothing, says what is missing)
	@scripts/setup.sh check
	@$(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DTALON_TESTS=OFF)
	@$(NINJA) talon

install: build ## into PREFIX (default /usr/local): the binary and the draft heads in models/, and the trainer where it was built
	@for part in program heads trainer; do cmake --install $(BUILD) --component $$part --prefix $(or $(PREFIX),/usr/local) || exit 1; done

LIBRARY = $(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DTALON_TESTS=OFF) -DTALON_LIBRARY=ON

install-library: ## into PREFIX (default /usr/local): libtalon for programs in C and C++ (docs/library.md), and the draft heads
	@scripts/setup.sh check
	@$(LIBRARY) && $(NINJA) talon_library
	@for part in shared library heads; do cmake --install $(BUILD) --component $$part --prefix $(or $(PREFIX),/usr/local) || exit 1; done

deb: ## Debian packages of program, library and draft heads: build/*.deb
	@scripts/setup.sh build deb
	@$(LIBRARY) && $(NINJA) talon talon_library && cd $(BUILD) && cpack -G DEB

library-test: ## the library as programs outside the tree see it: installed, and as Debian packages (INSTALL=install: into this system)
	@scripts/setup.sh deb
	@$(LIBRARY) && $(NINJA) talon talon_library
	@tests/library/installed.sh $(BUILD) tests/data/models/stories260K.bin
	@tests/library/package.sh $(BUILD) tests/data/models/stories260K.bin $(INSTALL)

python: ## installs what compiling needs (apt), then the Python package (docs/python.md) with pip
	@scripts/setup.sh build python
	@scripts/python.sh $(BUILD)

python-test: ## the tests of the Python package and its notebook, in an environment under build/ (pip)
	@scripts/setup.sh python
	@scripts/python_test.sh $(BUILD) $(JOBS)

notebook: ## examples/python.ipynb, written and run
	@scripts/setup.sh python
	@scripts/python_test.sh $(BUILD) $(JOBS) notebook

trainer: ## build/talon-train beside build/talon, for `talon train head` (installs libtorch, about 260 MB)
	@scripts/setup.sh train
	@$(CONFIGURE) -DTALON_TRAIN=ON
	@$(NINJA) talon talon-train

asan: setup ## the quick set of all test programs but the trainer's under AddressSanitizer and UndefinedBehaviorSanitizer (long)
	@scripts/sanitize.sh address,undefined build-asan $(JOBS) all

tsan: setup ## core, engine, C interface and server tests under ThreadSanitizer
	@scripts/sanitize.sh thread build-tsan $(JOBS) core_test engine_test c_test serve_paths_test serve_faults_test

library-sanitize: setup ## the C interface under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer
	@scripts/sanitize.sh address,undefined build-asan $(JOBS) c_test
	@scripts/sanitize.sh thread build-tsan $(JOBS) c_test

fuzz: ## every parser, engine situations and damaged models, FUZZ_SECONDS each (default 600)
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),600)
	@$(CONFIGURE) -DTALON_TESTS=ON && $(NINJA) engine_fuzz load_fuzz
	@for program in engine_fuzz load_fuzz; do $(BUILD)/tests/fuzz/$$program --seconds $(or $(FUZZ_SECONDS),600) --jobs $(JOBS) \
	  --seed $$(date +%s)000000 || exit 1; done

fuzz-long: setup ## a million engine situations without a difference (a night on two cores; goes on where it was stopped)
	@$(CONFIGURE) -DTALON_TESTS=ON && $(NINJA) engine_fuzz
	@$(BUILD)/tests/fuzz/engine_fuzz --situations $(or $(SITUATIONS),1000000) --jobs $(JOBS) --state $(BUILD)/engine_fuzz.state

golden: setup ## every golden prompt on every backend, TinyLlama included (long)
	@$(CONFIGURE) -DTALON_TESTS=ON && $(NINJA) talon golden_full_test
	@for model in smollm2 tinyllama stories15m; do $(BUILD)/talon pull $$model --models downloads || exit 1; done
	@$(BUILD)/tests/golden/golden_full_test

exactness: setup ## the full product of the exactness test on SmolLM2 (two hours; goes on where it was stopped)
	@$(CONFIGURE) -DTALON_TESTS=ON && $(NINJA) talon exactness_full
	@$(BUILD)/talon pull smollm2 --models downloads && $(BUILD)/tests/conformance/exactness_full $(BUILD)/exactness.txt

bench: build ## the table of the README: plain and drafted decoding beside llama.cpp in one interleaved run
	@scripts/bench.sh $(BUILD)/talon

converted: build ## models converted to GGUF, in Talon and in llama.cpp (PEER=source: the newer one): the same answers (some minutes)
	@folder=$$(scripts/llama_cpp.sh $(PEER)) && python3 bench/converted.py $(BUILD)/talon "$$folder"

llama-source: ## a second, newer llama.cpp to compare with, built from source (pip; 15 minutes, once)
	@scripts/setup.sh build pull
	@scripts/llama_cpp.sh source

field: build ## the methods of the field on the same models and questions, one page (FIELD_QUESTIONS=1: a try; goes on where it was stopped)
	@scripts/field.sh $(BUILD)/talon

learn: ## what a head learns from one user's kind of text while serving; PROMPTS=FILE (long; goes on where it was stopped)
	@: $(or $(PROMPTS),$(error PROMPTS= of JSON lines with "prompt"))
	@$(MAKE) --no-print-directory trainer
	@$(BUILD)/talon pull smollm2 --models downloads
	@python3 bench/learn.py $(BUILD)/talon smollm2 $(PROMPTS) tests/data/spec_bench_dev.jsonl $(BUILD)/learn

policies: trainer ## every drafting policy at its best setting, in interleaved runs (hours; goes on where it was stopped)
	@scripts/compare_policies.sh $(BUILD)/talon $(BUILD)/talon-train

signature: build ## one hash of what the reference backend decodes
	@$(BUILD)/talon bench signature

picture: build ## docs/answer.svg, the picture of the README, from an answer of smollm2
	@$(BUILD)/talon pull smollm2 --models downloads && scripts/answer_picture.py $(BUILD)/talon docs/answer.svg

mixtures: build ## plain decoding, checks and drafting of mixtures of experts, beside llama.cpp
	@scripts/mixtures.sh $(BUILD)

images: build ## a sheet of pictures by MODEL= (emoji; PROMPT= or CLASS=, SHEET=4x4, VQ=), plain and drafted, the same
	@scripts/images.sh $(BUILD)/talon $(MODEL)

image-bench: ## ways to draw and what their pictures show; FOLDER= of scripts/train_images.sh (long; goes on where it was stopped)
	@: $(or $(FOLDER),$(error FOLDER= of scripts/train_images.sh))
	@$(MAKE) --no-print-directory trainer
	@scripts/bench_images.sh $(FOLDER) $(BUILD)/talon

pages: setup ## web/*/dist, the pages of reports and of talon serve, from their sources (npm)
	@scripts/web_page.sh report && scripts/web_page.sh chat

page-test: build ## the page of talon serve in Chromium (installs it), by Playwright; PICTURES=FOLDER keeps pictures
	@scripts/page_test.sh $(BUILD) $(PICTURES)

format: ## clang-format over all C++
	@scripts/setup.sh format
	@git ls-files '*.cpp' '*.h' | xargs clang-format-14 -i

check: ## what no compiler says: format, line lengths, sizes of files and folders, names of files in documents
	@scripts/setup.sh format
	@python3 tests/style/check_style.py

bridge-test: ## the Rust crate's own tests, a minute: templates that are made up, and bounds of time
	@scripts/setup.sh
	@cd src/text/bridge && PATH="$$HOME/.cargo/bin:$$PATH" && \
	  $$(command -v cargo cargo-1.96 cargo-web | head -1) test --release --locked --quiet --lib -- --test-threads=1

tidy: ## clang-tidy over src
	@scripts/setup.sh format
	@cmake -S . -B build-tidy -G Ninja > /dev/null && git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build-tidy --quiet

clean: ## remove what was built (not what was downloaded)
	@rm -rf build build-* $(BUILD) $(BUILD).log src/text/bridge/target
