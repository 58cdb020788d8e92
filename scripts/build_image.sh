#!/bin/sh
# Builds the server's image from the Dockerfile, looks into it, starts it once on a loopback port and stops it.
#   scripts/build_image.sh [--fresh] [--tag NAME]
# Uses Docker where an engine answers, else Debian's buildah and debootstrap, which need root but no engine and no
# registry. Everything it keeps lies in LABCARBON_IMAGE_CACHE (default: cache/image in the data directory).
set -eu
cd "$(dirname "$0")/.."

engine=${LABCARBON_IMAGE_ENGINE:-}
if [ -z "$engine" ]; then
  if command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1; then engine=docker; else engine=buildah; fi
fi
if [ "$engine" = buildah ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "Building without a Docker engine needs root (debootstrap and chroot): sudo scripts/build_image.sh" >&2
    exit 77
  fi
  for tool in buildah debootstrap; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      echo "There is no $tool on this machine: apt-get install buildah debootstrap" >&2
      exit 77
    fi
  done
fi
exec python3 scripts/image.py --engine "$engine" "$@"
