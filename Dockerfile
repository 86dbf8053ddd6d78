# One service: the sidecar with its embedded store. See README.md, "In a container".
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /build
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/flyball \
    && /opt/flyball/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY governor governor
COPY tool_gateway tool_gateway
COPY memory_store memory_store
COPY ebpf ebpf
COPY runtime runtime
COPY migrations migrations
RUN /opt/flyball/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && rm -rf /build

# A stray package in the working directory must not shadow an installed one.
ENV PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/flyball/bin:$PATH \
    FLYBALL_CONFIG=/etc/flyball/flyball.toml \
    FLYBALL_STATE=/var/lib/flyball
RUN mkdir -p /etc/flyball && flyball init && install -d -m 0700 /var/lib/flyball
WORKDIR /var/lib/flyball
VOLUME /var/lib/flyball
EXPOSE 8700 8701
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8701/readyz')"]
STOPSIGNAL SIGTERM
CMD ["flyball", "up"]
