# Each target sets up what it needs, so that it works as the only command on a fresh Debian 12.
# ARGS goes to the program behind the target:  make demo ARGS='--seed 7'   make test ARGS='-k ring'
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test soak mutants trials evidence screenshots bench check format proto clean
ARGS ?=

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## Install everything: Debian packages and .venv (safe to repeat)
	@scripts/setup soak

demo: ## Planned paths against ECMP on an emulated fabric of real switches
	@scripts/setup demo
	@scripts/as-root .venv/bin/heddle demo $(ARGS)

test: ## Run every test
	@scripts/setup all
	@scripts/run-tests $(ARGS)

soak: ## Run the long forms of the tests: 20 x the examples, 4 million mutated packets, a million VPC changes, whole labs, virtual machines (2 hours, at most 4)
	@scripts/setup soak
	HEDDLE_EXAMPLES=10 HEDDLE_FUZZ_CASES=4000000 timeout 4h .venv/bin/python -m pytest -m "not e2e" -n 2 \
	  --dist loadfile --no-loadscope-reorder -o timeout=7200 $(ARGS)
	timeout 1h scripts/as-root .venv/bin/python -m pytest -m "e2e and soak" -p no:cacheprovider $(ARGS) || [ $$? = 5 ] # none selected

trials: ## Run the demo in series: beside none, one and two busy loops, and with a controller that never re-plans (two hours)
	@scripts/setup demo
	@scripts/as-root .venv/bin/python -m tests.support.demo_trials $(ARGS)

mutants: ## Plant 1,000 faults, one at a time, and list those that no test finds (hours; ARGS='--count 100')
	@scripts/setup all
	.venv/bin/python -m tests.support.mutants $(ARGS)

bench: ## Run the benchmarks, each a table and JSON
	@scripts/setup all
	@scripts/as-root .venv/bin/python -m heddle.benchmarks $(ARGS)

evidence: ## Measure README's figures and the headline figures again, and say which hold (25 minutes)
	@scripts/setup all
	@scripts/as-root .venv/bin/python -m heddle.benchmarks.evidence $(ARGS)

screenshots: ## Take the dashboard's screenshots from a live lab into docs/images
	@scripts/setup all
	scripts/as-root .venv/bin/python -m tests.support.screenshots docs/images

check: ## Lint, format, types, import contracts, generated code
	@scripts/setup all
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	scripts/generate-proto --check
	scripts/build-bpf --check
	scripts/check-language

format: ## Fix what the linter can fix by itself
	@scripts/setup all
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

proto: ## Generate the gRPC stubs anew
	@scripts/setup all
	scripts/generate-proto

clean: ## Remove .venv and the tools' caches (reports stay)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build heddle.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
