# The yardstick: the same requirements, the same operating system image, installed plainly with pip.
# The context is the folder of a row (it holds requirements.in and requirements.lock).
ARG OS_IMAGE=debian:trixie-slim
FROM ${OS_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt PATH=/opt/venv/bin:$PATH
COPY requirements.lock /tmp/requirements.lock
RUN python3 -m venv /opt/venv && pip install --no-cache-dir --require-hashes -r /tmp/requirements.lock
