# Everything a newcomer, a developer or continuous integration does here is one of these targets.
# Each first brings what it needs (.ci/bootstrap.sh); a repeat skips what is done already.

VENV ?= .venv
PYTHON_IN_VENV := $(VENV)/bin/python
SPARK_JAVA := JAVA_HOME="$$($(PYTHON_IN_VENV) -m jetsync.cli.java $(VENV)/java)"

# The current folder stays off Python's path, so that an installed wheel is not hidden by the
# checkout beside it; an editable installation puts the checkout there by itself.
export PYTHONSAFEPATH := 1
# What is compiled is kept: some images forbid it, and then each process compiles all tests again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lanes soak build lint types bench performance watch fuzz sanitize coverage docs wheels completeness site clean ready-demo ready-dev

help:  ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ready-demo  ## run the whole pipeline on real data; options in ARGS, e.g. ARGS="--rows 20000"
	@$(PYTHON_IN_VENV) -m jetsync demo $(ARGS)

test: lint types lanes  ## run every check: lint, types, then the whole test suite (options in ARGS)

lanes: ready-dev  ## run the whole test suite: beside each other, then alone what measures time
	@$(SPARK_JAVA) $(PYTHON_IN_VENV) -m tests.lanes $(ARGS)

soak: ready-dev  ## run the long form of the tests and keep its figures (PART="time memory"; default: all parts)
	@PART="$(PART)" $(SPARK_JAVA) $(PYTHON_IN_VENV) -m tests.soak $(ARGS)

build: ready-dev  ## build and install into .venv, with what developers need

lint: ready-dev  ## check style
	@$(PYTHON_IN_VENV) -m ruff check .

types: ready-dev  ## check types
	@$(PYTHON_IN_VENV) -m mypy --strict

bench: ready-dev  ## measure jetsync beside other clients, far away, and idle, in some 10 minutes (ARGS="--help")
	@$(PYTHON_IN_VENV) -m benchmarks.macro.run $(ARGS)
	@$(if $(ARGS),true,$(PYTHON_IN_VENV) -m benchmarks.links --slow 10 --rounds 1 --messages 100000)
	@$(if $(ARGS),true,$(PYTHON_IN_VENV) -m benchmarks.idle --points 100 1000 --seconds 10)

performance: ready-dev  ## measure everything, for hours, and write docs/performance.md
	@$(PYTHON_IN_VENV) -m benchmarks.macro.run --full $(ARGS)
	@rm -f benchmarks/results/*.json && cp build/bench/result.json benchmarks/results/full.json
	@$(PYTHON_IN_VENV) -m benchmarks.macro.report

watch: ready-dev  ## compare instructions per message with the record (ARGS=--record)
	@$(PYTHON_IN_VENV) -m benchmarks.watch.check $(ARGS)

fuzz: ready-dev  ## fuzz the C library for minutes (ARGS="--seconds 60 --target parser --corpus folder")
	@$(PYTHON_IN_VENV) -m tests.fuzz.run $(ARGS)

sanitize: ready-dev  ## run all tests that need no Spark with the address and UB sanitizers (tests in ARGS)
	@$(PYTHON_IN_VENV) -m tests.csrc.sanitized $(ARGS)

coverage: ready-dev  ## show how much of the C library its corpus and its unit tests cover
	@$(PYTHON_IN_VENV) -m tests.csrc.coverage

docs: ready-dev  ## build the documentation into build/site, and look at it where there is Chromium
	@$(PYTHON_IN_VENV) -m pip --quiet --disable-pip-version-check install --group docs --constraint .ci/constraints.txt
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_VENV) -m mkdocs build --strict -f .ci/docs/mkdocs.yml
	@if command -v chromedriver >/dev/null; then $(PYTHON_IN_VENV) .ci/docs/look.py build/site; fi

completeness: ready-dev  ## check that pyright knows the type of nearly every public name
	@$(PYTHON_IN_VENV) -m pip --quiet --disable-pip-version-check install --group completeness --constraint .ci/constraints.txt
	@$(PYTHON_IN_VENV) .ci/completeness.py

site: ready-dev  ## add the documentation of one version to the branch of the site (VERSION=v1.2.3)
	@$(PYTHON_IN_VENV) -m pip --quiet --disable-pip-version-check install --group docs --constraint .ci/constraints.txt
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_VENV) .ci/docs/deploy.py "$(VERSION)" $(ARGS)

wheels: ready-dev  ## build, repair, check and test a wheel for every Python on this machine, into dist/
	@bash .ci/wheels.sh

clean:  ## remove what was built, installed and produced here
	rm -rf $(VENV) .cache build dist *.egg-info jetsync/_core/*.so demo-out .pytest_cache .mypy_cache \
		.ruff_cache .hypothesis .benchmarks spark-warehouse
	find jetsync tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

ready-demo:
	@VENV=$(VENV) bash .ci/bootstrap.sh demo

ready-dev:
	@VENV=$(VENV) bash .ci/bootstrap.sh dev
