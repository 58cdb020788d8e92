#!/bin/sh
# Makes the virtual environment: make_venv.sh PYTHON VENV REQUIREMENTS... (without requirements: an empty one)
set -eu
python=$1 venv=$2
shift 2

if ! command -v "$python" >/dev/null 2>&1; then
  echo "There is no '$python' on this machine. Install Python 3.11 or newer (Debian: apt install python3 python3-venv)," >&2
  echo "or name another one: make run PYTHON=/usr/bin/python3.11" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "$("$python" -V) at $(command -v "$python") is too old: LabCarbon needs Python 3.11 or newer." >&2
  echo "Name a newer one: make run PYTHON=/usr/bin/python3.11" >&2
  exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
  echo "Making a virtual environment in $venv with $("$python" -V)"
  if ! "$python" -m venv "$venv" 2>"$venv.log"; then
    cat "$venv.log" >&2
    rm -rf "$venv" "$venv.log"
    echo "Python cannot make virtual environments here. Debian: apt install python3-venv; then make run again." >&2
    exit 1
  fi
  rm -f "$venv.log"
fi
[ $# -gt 0 ] || exit 0
files=""
for file in "$@"; do files="$files -r $file"; done
echo "Installing what LabCarbon needs (a minute the first time)"
# shellcheck disable=SC2086
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes $files
PYTHONWARNINGS=ignore "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable collector
