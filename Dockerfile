# LabCarbon's server: web, worker, celery, beat and migrate in one image; the first argument says which
# (docker/entrypoint.sh). The collector is not installed in it: it measures the machine it is installed on, and a
# container would see neither the meters nor the jobs. The fingerprint's pure part is there, which both compute, and the
# wheels that nodes install from /install/.
#
# A build may be given three secrets, stored in no layer: this machine's settings of pip and apt (indexes, proxies,
# certificates) and its certificate authorities. Without them, pip's and Debian's defaults hold. scripts/build_image.sh
# passes all three.

FROM debian:bookworm-slim AS base
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN --mount=type=secret,id=apt-conf,target=/etc/apt/apt.conf.d/99build,mode=0444 \
    --mount=type=secret,id=ca-bundle,mode=0444 \
    apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get upgrade -q -y \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ca-certificates python3 \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/ldconfig/aux-cache /var/log/apt /var/log/dpkg.log /var/log/alternatives.log \
 && groupadd --gid 10001 labcarbon \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/labcarbon --shell /usr/sbin/nologin labcarbon \
 && install -d -o labcarbon -g labcarbon -m 0700 /var/lib/labcarbon

FROM base AS build
RUN --mount=type=secret,id=apt-conf,target=/etc/apt/apt.conf.d/99build,mode=0444 \
    --mount=type=secret,id=ca-bundle,mode=0444 \
    apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/pip \
 && python3 -m venv --without-pip /opt/labcarbon
# Only the lock is copied here, so that a change of code does not install everything again. setuptools serves the
# collector's installation from its folder; the server runs without it.
COPY requirements.txt /build/requirements.txt
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf,mode=0444 \
    --mount=type=secret,id=ca-bundle,mode=0444 \
    /opt/pip/bin/pip --python /opt/labcarbon/bin/python install --quiet --disable-pip-version-check --no-cache-dir \
      --no-compile --require-hashes --only-binary :all: -r /build/requirements.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/labcarbon/lib
# .dockerignore lists what belongs to the program; nothing else is in the context.
COPY . /srv/labcarbon
# What nodes install from /install/. setuptools builds the collector's wheel, and the server runs without it.
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf,mode=0444 \
    --mount=type=secret,id=ca-bundle,mode=0444 \
    cd /srv/labcarbon && LABCARBON_DATA=/tmp/build-data PYTHONPATH=/srv/labcarbon/collector \
    /opt/labcarbon/bin/python manage.py collect_wheels --pip /opt/pip/bin/pip \
 && /opt/pip/bin/pip --python /opt/labcarbon/bin/python uninstall --quiet --yes setuptools \
 && find collector -mindepth 1 -maxdepth 1 ! -name labcarbon_collect -exec rm -r {} + \
 && find collector/labcarbon_collect -mindepth 1 -maxdepth 1 ! -name __init__.py ! -name lc1 -exec rm -r {} + \
 && rm -r deploy requirements && rm -rf /tmp/build-data
# collectstatic requires secrets. These are random, used once and stored nowhere.
RUN cd /srv/labcarbon && chmod -R u=rwX,go=rX . && chmod 0755 docker/* \
 && random() { python3 -c 'import secrets; print(secrets.token_hex(32))'; } \
 && LABCARBON_SECRET_KEY=$(random) LABCARBON_TOKEN_PEPPERS=1:$(random) LABCARBON_DATA=/tmp/build-data \
    LABCARBON_STATIC=/srv/labcarbon-static PYTHONPATH=/srv/labcarbon/collector \
    /opt/labcarbon/bin/python manage.py collectstatic --noinput --verbosity 0 \
 && rm -rf /tmp/build-data \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /srv/labcarbon

# Nothing runs in this stage: it holds what is copied into it and no trace of how that was made.
FROM base
COPY --from=build /opt/labcarbon /opt/labcarbon
COPY --from=build /srv /srv
ENV PATH=/opt/labcarbon/bin:/usr/local/bin:/usr/bin:/bin \
    LABCARBON_DATA=/var/lib/labcarbon \
    LABCARBON_STATIC=/srv/labcarbon-static \
    PYTHONPATH=/srv/labcarbon/collector
WORKDIR /srv/labcarbon
USER 10001:10001
VOLUME /var/lib/labcarbon
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["/srv/labcarbon/docker/healthcheck.py"]
ENTRYPOINT ["/srv/labcarbon/docker/entrypoint.sh"]
CMD ["web"]
