#!/bin/sh
# Installs or upgrades the LabCarbon collector on this node, enrols the node and starts it.
#
#   sh labcarbon-install.sh [--system] [--token-file FILE] [--foreground]
#
#   --system           as a systemd service of a user of its own, in /opt/labcarbon-collect (root)
#   --token-file FILE  read the fleet token or one-time code from FILE (mode 0600), not from a prompt
#                      or standard input
#   --foreground       run the collector in this process, for containers
#
# Without options it needs no root: it installs to ~/.local. Everything comes from one server and is
# compared with the digests below. A node that is enrolled stays enrolled, and no token is read.
# Configuration and spool are not touched.
set -eu

URL=@URL@
PIP=@PIP@

files() {
  cat <<'FILES'
@FILES@
FILES
}

requirements() {
  cat <<'REQUIREMENTS'
@REQUIREMENTS@
REQUIREMENTS
}

say() { printf 'labcarbon: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

check_url() {
  case "$URL" in
    https://*) ;;
    http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]*) ;;
    'http://[::1]' | 'http://[::1]'[:/]*) ;;
    *) fail "$URL has no TLS. Nothing is installed." ;;
  esac
}

find_python() {
  for name in ${LABCARBON_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    if "$name" -c 'import sys, ssl, venv; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; then
      printf '%s\n' "$name"
      return
    fi
  done
  fail "Python 3.9 or newer is not on this node. Install it, or set LABCARBON_PYTHON=/path/to/python3."
}

check_token_file() {
  [ -f "$1" ] && [ ! -L "$1" ] || fail "$1 is no regular file."
  case "$(stat -c %a -- "$1")" in
    *00) ;;
    *) fail "$1 is readable by others, so its token is no secret: chmod 600 $1" ;;
  esac
}

# Arguments: folder. Standard input: lines of digest, size and name.
download() {
  "$PYTHON" -c '
import hashlib, sys, urllib.error, urllib.request
base, folder = sys.argv[1:]
for line in sys.stdin:
    digest, size, name = line.split()
    url = f"{base}/install/files/{name}"
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read(int(size) + 1)
    except (OSError, urllib.error.URLError) as error:
        sys.exit(f"labcarbon: {url} cannot be downloaded: {error}")
    if hashlib.sha256(content).hexdigest() != digest:
        sys.exit(f"labcarbon: {url} is not the file of this script. Download the script again.")
    with open(f"{folder}/{name}", "wb") as file:
        file.write(content)
' "$URL" "$1"
}

install_packages() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  files | download "$work" || return 1
  requirements >"$work/requirements.txt"
  # --without-pip: Debian has no ensurepip without python3-venv
  "$PYTHON" -m venv --without-pip "$TARGET" || return 1
  "$TARGET/bin/python" "$work/$PIP/pip" --isolated install --quiet --disable-pip-version-check \
    --no-warn-script-location --no-cache-dir --no-index --find-links "$work" --require-hashes \
    --force-reinstall --requirement "$work/requirements.txt" || return 1
}

# A service has its own user, which exists only while a unit runs.
as_service() {
  pipe=--pipe
  [ ! -t 0 ] || pipe=--pty
  systemd-run --quiet --wait --collect "$pipe" --property=DynamicUser=yes \
    --property=User=labcarbon-collect --property=StateDirectory=labcarbon \
    --property=StateDirectoryMode=0700 ${SSL_CERT_FILE:+"--setenv=SSL_CERT_FILE=$SSL_CERT_FILE"} "$@" && return
  code=$?
  # systemd.exec(5): systemd's own codes begin at 200
  [ "$code" -lt 200 ] || say "systemd cannot start a process as labcarbon-collect. Reason: journalctl -n 20"
  return "$code"
}

enrol() {
  if [ -n "$TOKEN_FILE" ]; then
    "$@" enrol --if-needed --code-file - "$URL" <"$TOKEN_FILE"
  else
    "$@" enrol --if-needed "$URL"
  fi
}

start_service() {
  install -D -m 0644 "$work/labcarbon.sysusers.conf" /etc/sysusers.d/labcarbon.conf
  install -D -m 0644 "$work/labcarbon.tmpfiles.conf" /etc/tmpfiles.d/labcarbon.conf
  install -D -m 0644 "$work/labcarbon-collect.service" /etc/systemd/system/labcarbon-collect.service
  systemd-sysusers labcarbon.conf
  systemd-tmpfiles --create labcarbon.conf || true # no RAPL on this node
  if [ -n "${SSL_CERT_FILE:-}" ] && ! grep -qs '^SSL_CERT_FILE=' /etc/labcarbon/collect.env; then
    install -d -m 0755 /etc/labcarbon
    (umask 077 && echo "SSL_CERT_FILE=$SSL_CERT_FILE" >>/etc/labcarbon/collect.env)
  fi
  systemctl daemon-reload
  systemctl enable --quiet labcarbon-collect
  systemctl restart labcarbon-collect
}

user_unit() {
  echo '[Unit]'
  echo 'Description=LabCarbon collector: measures the energy of this machine'
  echo '[Service]'
  echo 'Type=notify'
  echo 'NotifyAccess=main'
  echo "ExecStart=\"$COLLECT\" daemon"
  for name in LABCARBON_DATA LABCARBON_SOCKET LABCARBON_USERS SSL_CERT_FILE; do
    value=$(printenv "$name" || true)
    [ -z "$value" ] || echo "Environment=\"$name=$value\""
  done
  echo 'Restart=on-failure'
  echo 'RestartSec=10'
  echo 'WatchdogSec=60'
  echo 'Nice=10'
  echo 'UMask=0077'
  echo '[Install]'
  echo 'WantedBy=default.target'
}

# Argument: the file with the process id of a collector that this script started before.
stop_former() {
  former=$(cat "$1" 2>/dev/null || true)
  case "$former" in '' | *[!0-9]*) return 0 ;; esac
  [ -r "/proc/$former/cmdline" ] || return 0
  tr '\0' ' ' <"/proc/$former/cmdline" 2>/dev/null | grep -qF "$COLLECT daemon" || return 0
  kill "$former" 2>/dev/null || return 0
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$former" 2>/dev/null || return 0
    sleep 0.5
  done
  fail "The running collector (process $former) does not stop."
}

start_as_user() {
  if systemctl --user show-environment >/dev/null 2>&1; then
    units=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
    mkdir -p "$units"
    user_unit >"$units/labcarbon-collect.service"
    systemctl --user daemon-reload
    systemctl --user enable --quiet labcarbon-collect
    systemctl --user restart labcarbon-collect
    loginctl enable-linger >/dev/null 2>&1 ||
      say "The collector ends when you log out. Keep it: sudo loginctl enable-linger $(id -un)"
    return
  fi
  stop_former "$TARGET/daemon.pid"
  nohup "$COLLECT" daemon </dev/null >>"$TARGET/daemon.log" 2>&1 &
  echo "$!" >"$TARGET/daemon.pid"
  sleep 1
  kill -0 "$(cat "$TARGET/daemon.pid")" 2>/dev/null || fail "$(tail -n 1 "$TARGET/daemon.log")"
  say "This user has no systemd, so the collector does not start again after a reboot. Log: $TARGET/daemon.log"
}

main() {
  SYSTEM='' FOREGROUND='' TOKEN_FILE=''
  while [ $# -gt 0 ]; do
    case "$1" in
      --system) SYSTEM=1 ;;
      --foreground) FOREGROUND=1 ;;
      --token-file)
        [ $# -ge 2 ] || fail "--token-file needs a file."
        TOKEN_FILE=$2
        shift
        ;;
      *) fail "Unknown argument. Usage: sh labcarbon-install.sh [--system] [--token-file FILE] [--foreground]" ;;
    esac
    shift
  done
  check_url
  [ -z "$TOKEN_FILE" ] || check_token_file "$TOKEN_FILE"
  if [ -n "$SYSTEM" ]; then
    [ "$(id -u)" = 0 ] || fail "--system needs root."
    TARGET=/opt/labcarbon-collect
  else
    TARGET=${XDG_DATA_HOME:-$HOME/.local/share}/labcarbon-collect
  fi
  COLLECT=$TARGET/bin/labcarbon-collect
  PYTHON=$(find_python)
  if [ -n "$SYSTEM" ]; then umask 022; else umask 077; fi
  mkdir -p "$(dirname "$TARGET")"
  if ! install_packages; then
    [ -n "$FOREGROUND" ] && [ -x "$COLLECT" ] || fail "The collector was not installed."
    say "The installed version is used."
  fi
  say "$("$COLLECT" --version) is installed."
  if [ -n "$SYSTEM" ]; then
    enrol as_service "$COLLECT"
    start_service
  else
    mkdir -p "$HOME/.local/bin"
    ln -sf "$COLLECT" "$HOME/.local/bin/labcarbon-collect"
    enrol "$COLLECT"
    if [ -n "$FOREGROUND" ]; then
      rm -rf "$work"
      exec "$COLLECT" daemon
    fi
    start_as_user
  fi
  say "The collector runs. Its first reading appears within about a minute: $URL/nodes/add/"
}

main "$@"
