# LabCarbon: `make run` starts it on this machine, `make test` proves it. Everything else is listed by `make help`.
PYTHON ?= python3
VENV ?= .venv
FRAMEWORKS ?= .venv-frameworks
BIN := $(VENV)/bin
export LABCARBON_DATA ?= $(CURDIR)/var
export LABCARBON_PORT ?= 8000

.PHONY: help run demo setup test test-frameworks packages environments suite lint format lock schema pictures audit soak image clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.installed $(VENV)/.wheels ## start LabCarbon on this machine: web, worker, collector (Ctrl-C stops all)
	@exec $(BIN)/python -m labcarbon.launch

demo: $(VENV)/.installed ## start a demo with made-up data of a year in var-demo: make demo PORT=8010 MULTIPLIER=1
	@exec $(BIN)/python -m labcarbon.demo $(if $(PORT),--port $(PORT)) $(if $(MULTIPLIER),--multiplier $(MULTIPLIER))

setup: $(VENV)/.installed ## set up without a browser: make setup LAB="Cell Lab" ZONE=DE SITE_KIND=workstation
	@test -n "$(LAB)" || { echo 'Name the lab: make setup LAB="Cell Lab" ZONE=DE SITE_KIND=workstation' >&2; exit 1; }
	@$(BIN)/python -m labcarbon.launch --prepare
	@$(BIN)/python manage.py setup_lab --lab "$(LAB)" --zone "$(ZONE)" --site-kind "$(or $(SITE_KIND),workstation)" \
	  $(if $(BASIS),--basis "$(BASIS)") $(if $(TIME_ZONE),--time-zone "$(TIME_ZONE)") $(if $(SITE_USER),--user "$(SITE_USER)")

test: packages ## run all checks and tests in a fresh environment
	@$(MAKE) --no-print-directory --jobs=3 environments
	@$(MAKE) --no-print-directory --jobs=2 lint suite

suite: environments # the tests alone; `make test` checks form and types beside them
	@$(BIN)/python -m tests.run $(TESTS)

environments: $(VENV)/.installed-dev $(VENV)/.installed-codecarbon $(VENV)/.installed-mlflow $(VENV)/.installed-pairs \
  $(VENV)/.installed-wandb

packages: # what the tests need from Debian, installed where that is allowed
	@scripts/debian_packages.sh tests/debian-packages.txt

test-frameworks: $(FRAMEWORKS)/.installed ## run the tests that need PyTorch, in an environment of their own
	@PYTHONPATH=collector:. $(FRAMEWORKS)/bin/python -m pytest -c tests/frameworks/pytest.ini --rootdir . \
	  --confcutdir tests/frameworks tests/frameworks

lint: $(VENV)/.installed-dev ## check format, style, types and import contracts
	@$(BIN)/ruff format --check --quiet apps labcarbon tests scripts benchmarks collector manage.py
	@$(BIN)/ruff check --quiet .
	@! grep -rnIE '^ *(<<<<<<<|>>>>>>>) ' apps benchmarks collector deploy docs labcarbon static templates tests *.md
	@$(BIN)/djlint templates --check --quiet || { echo 'Some templates are not formatted: make format' >&2; exit 1; }
	@$(BIN)/djlint templates --lint --quiet
	@$(BIN)/lint-imports --verbose > $(VENV)/lint-imports.log 2>&1 || (cat $(VENV)/lint-imports.log; false)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file collector/mypy.ini collector/labcarbon_collect

format: $(VENV)/.installed-dev ## format code and templates
	@$(BIN)/ruff format --quiet apps labcarbon tests scripts benchmarks collector manage.py
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/djlint templates --reformat --quiet || true

lock: $(VENV)/.installed-dev ## lock the requirements with hashes
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements.in -o requirements.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/dev.in -o requirements/dev.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/codecarbon.in -o requirements/codecarbon.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/mlflow.in -o requirements/mlflow.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/pairs.in -o requirements/pairs.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --universal --python-version 3.11 requirements/wandb.in -o requirements/wandb.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
	$(BIN)/uv pip compile -q --python-version 3.9 requirements/collector.in -o requirements/collector.txt \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock"

schema: $(VENV)/.installed-dev ## write the API's schema to docs/api/openapi.yaml
	@$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/api/openapi.yaml

pictures: $(VENV)/.installed-dev ## take a picture of each page into docs/pictures (needs Chromium)
	@$(BIN)/python scripts/screenshots.py

audit: $(VENV)/.installed-dev ## check the locked packages for known vulnerabilities (needs the network)
	@$(BIN)/pip-audit --requirement requirements.txt --disable-pip --no-deps --strict

soak: $(VENV)/.installed-dev ## run the long fault tests: 2 × 1 000 kills, 40 000 hostile requests (2 hours)
	@LABCARBON_KILLS=1000 $(BIN)/pytest -n0 -s --timeout 14400 tests/faults/test_kills.py
	@LABCARBON_HOSTILE_REQUESTS=20000 $(BIN)/pytest tests/attacks/test_hostile_requests.py tests/attacks/test_api_schema.py

image: ## build the container image and start it once (root; needs buildah and debootstrap)
	@scripts/build_image.sh

clean: ## remove the virtual environment and caches, never your data
	rm -rf $(VENV) $(FRAMEWORKS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The collector is installed from its folder: its one dependency is locked in requirements.txt already.
$(VENV)/.installed: requirements.txt collector/pyproject.toml scripts/make_venv.sh
	@scripts/make_venv.sh "$(PYTHON)" "$(VENV)" requirements.txt
	@touch $@

# What other nodes install from this server. Without a route to the packages it starts all the same, and the page says so.
$(VENV)/.wheels: $(VENV)/.installed requirements/collector.txt $(shell find collector -name '*.py' -o -name '*.toml' -o -name '*.csv') $(wildcard deploy/labcarbon*)
	@PIP_RETRIES=1 PIP_TIMEOUT=10 $(BIN)/python manage.py collect_wheels >/dev/null 2>$(VENV)/wheels.log && touch $@ || \
	  echo "Other nodes cannot be installed from here yet. See $(VENV)/wheels.log; then: $(BIN)/python manage.py collect_wheels"

# With all that `make run` needs, so that the two agree.
$(VENV)/.installed-dev: requirements.txt requirements/dev.txt collector/pyproject.toml scripts/make_venv.sh scripts/install_locked.sh
	@scripts/make_venv.sh "$(PYTHON)" "$(VENV)"
	@scripts/install_locked.sh "$(VENV)" "$(VENV)" requirements.txt requirements/dev.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable collector
	@touch $(VENV)/.installed $@

$(FRAMEWORKS)/.installed: tests/frameworks/requirements.txt
	@test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The clients of trackers that the tests speak with, and the frameworks of the pairs of runs: each in an environment of
# its own, as on a researcher's machine.
$(VENV)/.installed-%: requirements/%.txt $(VENV)/.installed-dev
	@test -x $(VENV)/$*/bin/python || $(BIN)/python -m venv --without-pip $(VENV)/$*
	@scripts/install_locked.sh "$(VENV)/$*" "$(VENV)" $<
	@touch $@
