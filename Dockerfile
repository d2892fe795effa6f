# Two stages: the first builds wheels from the lock, the second has no compiler, no pip cache and no root.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/oombot
COPY requirements.lock ./
RUN /opt/oombot/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY bot bot
COPY handlers handlers
COPY playbooks playbooks
RUN /opt/oombot/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/oombot/bin/oombot lint

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home --home-dir /var/lib/oombot oombot
COPY --from=build /opt/oombot /opt/oombot
USER 10001
# The only place that is written to; mount a volume here, so that open cases and the audit trail outlive the container. The root filesystem may be read-only.
VOLUME /var/lib/oombot
WORKDIR /var/lib/oombot
ENV PATH=/opt/oombot/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OOMBOT_DATA_DIR=/var/lib/oombot/data OOMBOT_HTTP_HOST=0.0.0.0
EXPOSE 8080
ENTRYPOINT ["oombot"]
CMD ["serve"]
