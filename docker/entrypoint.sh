#!/bin/sh
# Starts one role of the server: labcarbon web|worker|celery|beat|migrate|manage [ARGUMENTS...]
# The process replaces this shell, so that it gets the signals. What each variable means: docs/install.md.
set -eu

usage() {
  cat <<'TEXT'
labcarbon ROLE [ARGUMENTS...]
  web      the web server (pages, API), on LABCARBON_BIND:LABCARBON_PORT
  worker   leases and runs jobs from the database, without Redis
  celery   the same, woken through Redis (LABCARBON_REDIS_URL)
  beat     triggers the Celery workers every 20 s; run exactly one
  migrate  brings the database and the shipped tables up to date, then ends
  manage   any command of manage.py, for example: manage check
TEXT
}

# gunicorn and Celery start with any settings; a missing secret or an address without TLS is refused here.
check() {
  python manage.py check --fail-level ERROR >/dev/null
}

need_redis() {
  if [ -z "${LABCARBON_REDIS_URL:-}" ]; then
    echo "LABCARBON_REDIS_URL is not set: set it (redis://host:6379/0), or use the role 'worker', which needs no Redis." >&2
    exit 64
  fi
}

role=${1:-}
[ $# -eq 0 ] || shift

case "$role" in
  web)
    check
    # One process on SQLite, which has one writer at a time; several on PostgreSQL.
    case "${LABCARBON_DATABASE_URL:-sqlite}" in sqlite*) processes=1 ;; *) processes=${LABCARBON_WEB_PROCESSES:-2} ;; esac
    # The heartbeat files of the workers belong in memory: a slow disk must not look like a hung worker.
    exec gunicorn labcarbon.wsgi --bind "${LABCARBON_BIND:-0.0.0.0}:${LABCARBON_PORT:-8000}" \
      --workers "$processes" --threads "${LABCARBON_WEB_THREADS:-4}" \
      --config python:labcarbon.gunicorn --worker-tmp-dir /dev/shm --no-control-socket --graceful-timeout 20 "$@"
    ;;
  worker)
    check
    exec python manage.py worker "$@"
    ;;
  celery)
    need_redis
    check
    exec celery -A labcarbon worker --loglevel INFO "$@"
    ;;
  beat)
    need_redis
    check
    exec celery -A labcarbon beat --loglevel INFO --schedule /tmp/celerybeat-schedule --pidfile= "$@"
    ;;
  migrate)
    check
    python manage.py migrate --noinput "$@"
    exec python manage.py load_data
    ;;
  manage)
    exec python manage.py "$@"
    ;;
  help | -h | --help)
    usage
    ;;
  *)
    echo "There is no role '$role'." >&2
    usage >&2
    exit 64
    ;;
esac
