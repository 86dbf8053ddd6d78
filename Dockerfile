# The sidecar with all that it brings: docs/operations/containers.md. The base is named by its
# version; where you can look its digest up, give it: --build-arg BASE=python@sha256:...
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY requirements.lock ./
# What is locked, by its hashes; nothing that pip would choose itself.
RUN python3 -m venv /opt/flyball \
    && /opt/flyball/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY governor governor
COPY tool_gateway tool_gateway
COPY memory_store memory_store
COPY ebpf ebpf
COPY runtime runtime
COPY migrations migrations
# What was only there to build and install with stays behind.
RUN /opt/flyball/bin/pip install --no-cache-dir --disable-pip-version-check \
        --no-deps --no-build-isolation . \
    && /opt/flyball/bin/pip uninstall --yes hatchling editables pip

FROM ${BASE} AS flyball
# git: the MCP server for repositories. libbpf1: programs in the kernel, where it lets them in.
# tini: reaps what the children of local commands leave behind.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git libbpf1 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 flyball \
    && useradd --uid 10001 --gid flyball --home-dir /var/lib/flyball --no-create-home \
        --shell /usr/sbin/nologin flyball \
    && install -d -m 0755 /etc/flyball \
    && install -d -m 0700 -o flyball -g flyball /var/lib/flyball
COPY --from=build /opt/flyball /opt/flyball
COPY deploy/container/health.py /opt/flyball/health.py
# A stray package in the working directory must not shadow an installed one.
ENV PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/flyball/bin:/usr/local/bin:/usr/bin:/bin \
    FLYBALL_CONFIG=/etc/flyball/flyball.toml \
    FLYBALL_STATE=/var/lib/flyball
# Loopback only, until a configuration that is mounted over it says otherwise.
RUN flyball init && chmod 0644 /etc/flyball/flyball.toml
USER 10001:10001
WORKDIR /var/lib/flyball
VOLUME /var/lib/flyball
EXPOSE 8700 8701
HEALTHCHECK --interval=10s --timeout=5s --start-period=40s --retries=3 \
    CMD ["/opt/flyball/bin/python", "-I", "-S", "/opt/flyball/health.py"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/flyball/bin/flyball"]
CMD ["up"]
