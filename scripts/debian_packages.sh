#!/bin/sh
# Installs the Debian packages listed in the file named that are missing, where it may; else says which and goes on.
set -eu
list=$1
command -v dpkg-query >/dev/null 2>&1 || { echo "Not a Debian system: install what $list names by hand."; exit 0; }
missing=""
for package in $(sed 's/#.*//' "$list"); do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "Missing Debian packages:$missing. Tests that need them are left out; to have them: sudo apt-get install$missing"
  exit 0
fi
echo "Installing Debian packages:$missing"
# Policy: no service of ours is started by an installation; the tests start their own on private ports.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
