# 'make demo' runs the whole job, 'make test' runs the tests, 'make help' lists all targets.
.DEFAULT_GOAL := help
.PHONY: help install demo up upload down status test test-long release release-check test-compose test-outages campaign env bench bench-billion bench-spread lint reference docs lock clean

PYTHON := .venv/bin/python
READY := .venv/installed

help: ## List the targets
	@echo "Needs Python 3.11 and make; everything else is installed into .venv."
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '%-18s %s\n' "$$target" "$$what"; done
	@echo
	@echo "PyPI's own torch for Linux brings several GB of CUDA packages. For the CPU build, which is sufficient,"
	@echo "set pip's variable PIP_EXTRA_INDEX_URL to the CPU wheel index that pytorch.org names."

install: $(READY) ## Install everything into .venv

demo: $(READY) ## Partition a real graph through Airflow and S3 on this machine (GRAPH=packages or python_environment)
	@$(PYTHON) -m local_stack demo $(if $(GRAPH),--graph $(GRAPH))

up: $(READY) ## Keep Airflow and the S3 server running for the browser
	@$(PYTHON) -m local_stack up

upload: $(READY) ## Copy a graph of your own to the S3 server of 'make up' (GRAPH=folder)
	@$(PYTHON) -m local_stack upload "$(GRAPH)"

down: $(READY) ## Stop what 'make up' started
	@$(PYTHON) -m local_stack down

status: $(READY) ## Show which services run, and their addresses
	@$(PYTHON) -m local_stack status || true

test: $(READY) ## Run the tests, all but the long ones (target: ten minutes on two cores)
	@$(PYTHON) -m pytest -n 2 -m "not long"

test-long: $(READY) ## Run the long tests: over many graphs, and with servers that train
	@$(PYTHON) -m pytest -n 2 -m long tests/long tests/e2e tests/guide tests/integration

release: $(READY) ## Build and check the source distribution and the wheel in dist/, with notes; uploads nothing
	@sh local_stack/release.sh

release-check: docs ## Check Korean pages, error messages, and the site and Airflow's pages in Chromium
	@$(PYTHON) -m pytest tests/release

test-compose: $(READY) ## Bring docker-compose.yaml up with Docker or Podman and run a job on two workers
	@$(PYTHON) -m pytest -m "not long" tests/compose

test-outages: $(READY) ## Stop services of docker-compose.yaml for a minute each in the middle of runs
	@$(PYTHON) -m pytest tests/compose/test_outages.py

campaign: $(READY) ## Kill, suspend and damage runs, for at most an hour, and print a table of the results
	@$(PYTHON) -m tests.campaign

env: ## Write .env, the settings of docker-compose.yaml, with generated secrets
	@python3 -m local_stack.env_file

bench: $(READY) ## Compare the whole job with DGL's over sizes (about 25 minutes, 12 GB of disk)
	@$(PYTHON) -m benchmarks.jobs --tenfold --s3

bench-billion: $(READY) ## Prepare and partition graphs of up to 1.1 billion edges (20 GB of memory, 36 GB of disk)
	@$(PYTHON) -m benchmarks.billion

bench-spread: $(READY) ## Partition the graph of scale 10 on four machines of 1.3 GiB (root; 15 GB of disk)
	@$(PYTHON) -m benchmarks.spread_job

lint: $(READY) ## Check style (ruff) and types (mypy)
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

reference: $(READY) ## Write docs/reference.md, the tables in docs/ that follow from the code, and diagrams
	@$(PYTHON) docs/reference.py
	@$(PYTHON) docs/tables.py
	@$(PYTHON) docs/diagrams.py

docs: .venv/docs ## Build the documentation as a site into site/, which opens without a network
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build
	@$(PYTHON) docs/korean.py
	@echo "Open site/index.html in a browser."

lock: ## Update constraints.txt with the newest versions that fit pyproject.toml
	@sh local_stack/environment.sh lock

clean: ## Stop the local stack and remove its data and the environment
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m local_stack down; fi
	rm -rf .venv .local site

.venv/docs: $(READY)
	@$(PYTHON) -m pip install --quiet --progress-bar off -c constraints.txt -e '.[docs]'
	@touch .venv/docs

$(READY): pyproject.toml constraints.txt local_stack/environment.sh
	@sh local_stack/environment.sh install
