#!/bin/sh
# Installs what the tests need into an environment: install_locked.sh VENV TOOLS REQUIREMENTS...
# By uv, put into TOOLS first, where it reaches the packages; else by pip: the same files by the same hashes, in four times
# the time. Nothing is compiled ahead: much of it is never imported.
set -eu
venv=$1 tools=$2
shift 2

files=""
for file in "$@"; do files="$files -r $file"; done
if [ ! -x "$tools/bin/uv" ]; then
  wanted=$(mktemp)
  sed -n '/^uv==/,/[^\\]$/p' requirements/dev.txt > "$wanted"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r "$wanted" || true
  rm -f "$wanted"
fi
if [ -x "$tools/bin/uv" ]; then
  # shellcheck disable=SC2086
  "$tools/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes $files && exit 0
  echo "uv could not install that; trying pip" >&2
fi
# shellcheck disable=SC2086
"$tools/bin/python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check --no-compile \
  --require-hashes $files
