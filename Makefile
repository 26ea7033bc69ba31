# A thin front over the CMake presets and scripts/; docs/development.md says more.
PRESET ?= $(if $(CI),ci,release)
BUILD := $(if $(filter release ci,$(PRESET)),build,build/$(PRESET))
TARGETS ?= all

.DEFAULT_GOAL := help
.PHONY: help setup build demo wheel test bench bench-fidelity bench-heterps train-policy bench-schedule bench-burst bench-burst-run bench-balance bench-memory bench-training bench-gaps zoo fuzz format lint clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: ## install Debian packages, and PyTorch into .venv
	@scripts/setup.sh all

build: ## build/bin/heterplan (needs neither Python nor PyTorch)
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=heterplan

demo: build setup ## plan ResNet-50 for a mixed cluster, then run a small plan on this machine
	@scripts/demo.sh

wheel: ## build/wheel/heterplan-*.whl: program, catalogue, runtime and Python package
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@scripts/wheel.py $(BUILD)

test: setup compile ## build everything and run every test
	@scripts/test.sh $(BUILD) $(CTEST_ARGS)

bench: ## measure planning, import and simulation times
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=benchmarks
	@scripts/bench.sh $(BUILD)

bench-fidelity: setup ## compare predicted with measured iteration times (needs a quiet machine)
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@.venv/bin/python bench/fidelity.py

bench-heterps: ## every strategy on simulated resource types (PARTS="first held-out synchronous ablation"); writes docs/experiments/heterps.md
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=strategy_experiment
	@scripts/bench-heterps.sh $(BUILD) $(PARTS)

train-policy: ## train the policy of rl-transformer again; writes profiles/policies/transformer.policy
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=train_policy
	@$(BUILD)/bin/train_policy profiles/policies/transformer.policy $(SEED)

bench-schedule: ## every policy of schedule on generated workloads; writes docs/experiments/schedule.md
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=schedule_experiment
	@$(BUILD)/bin/schedule_experiment > $(BUILD)/schedule.md
	@cp $(BUILD)/schedule.md docs/experiments/schedule.md
	@scripts/wrap-markdown.py docs/experiments/schedule.md

bench-burst: ## burst plans against data parallelism; writes docs/experiments/burst.md
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=burst_experiment
	@$(BUILD)/bin/burst_experiment > $(BUILD)/burst.md
	@cp $(BUILD)/burst.md docs/experiments/burst.md
	@scripts/wrap-markdown.py docs/experiments/burst.md

bench-burst-run: setup ## a burst plan with branches and a background job on four CPU ranks (needs a quiet machine); writes docs/experiments/burst-run.md
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@.venv/bin/python bench/burst_run.py
	@scripts/wrap-markdown.py docs/experiments/burst-run.md

bench-gaps: ## how far plans are proven to be from the optimum; writes docs/experiments/gaps.md
	@scripts/setup.sh build
	@$(MAKE) --no-print-directory compile TARGETS=heterplan
	@scripts/bench-gaps.sh > $(BUILD)/gaps.md
	@cp $(BUILD)/gaps.md docs/experiments/gaps.md
	@scripts/wrap-markdown.py docs/experiments/gaps.md

bench-balance: setup ## even, fixed and re-sized shares, simulated and on two cores (needs a quiet machine); writes docs/experiments/balance.md
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@.venv/bin/python bench/balance.py --out $(BUILD)/balance
	@scripts/wrap-markdown.py docs/experiments/balance.md

bench-memory: setup ## whether ranks take no more memory than predicted, and run with that much; writes docs/experiments/memory.md
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@(printf '# Memory\n\n'; .venv/bin/python bench/memory.py) > $(BUILD)/memory.md
	@mv $(BUILD)/memory.md docs/experiments/memory.md
	@scripts/wrap-markdown.py docs/experiments/memory.md

bench-training: setup ## a CNN and a small GPT, interrupted twice, to targets; writes docs/experiments/training.md
	@$(MAKE) --no-print-directory compile TARGETS="heterplan heterplan_runtime"
	@rm -rf $(BUILD)/training
	@.venv/bin/python bench/real_task.py --heterplan $(BUILD)/bin/heterplan --out $(BUILD)/training > $(BUILD)/training.md
	@mv $(BUILD)/training.md docs/experiments/training.md
	@scripts/wrap-markdown.py docs/experiments/training.md

zoo: ## whether what is trained is the module: models in five ways; writes docs/experiments/zoo.md
	@scripts/setup.sh all
	@$(MAKE) --no-print-directory compile TARGETS="heterplan emit-model"
	@HETERPLAN_BINARY=$(abspath $(BUILD))/bin/heterplan \
	  .venv/bin/python -m pytest -q -p no:cacheprovider test/runtime/test_torch_compile.py
	@HETERPLAN_BINARY=$(abspath $(BUILD))/bin/heterplan scripts/zoo.sh
	@scripts/wrap-markdown.py docs/experiments/zoo.md

fuzz: ## fuzz every file reader for FUZZ_SECONDS (60) each
	@scripts/setup.sh fuzz
	@$(MAKE) --no-print-directory compile PRESET=fuzz TARGETS=fuzzers
	@scripts/fuzz.sh build/fuzz

format: ## reformat the C++ sources
	@scripts/setup.sh lint
	@scripts/lint.sh format

lint: ## check the format (clang-format) and the code (clang-tidy)
	@scripts/setup.sh lint
	@$(MAKE) --no-print-directory compile PRESET=lint TARGETS=heterplan_proto
	@scripts/lint.sh check build/lint

clean: ## remove build/ (not .venv)
	rm -rf build

.PHONY: compile
compile:
	@cmake --preset $(PRESET) --log-level=WARNING >/dev/null
	@cmake --build $(BUILD) --target $(TARGETS)
