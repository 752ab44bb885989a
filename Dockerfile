# Three images: `selfwire` is the command line without torch, `studio` serves the methods with `langgraph dev`.
#   docker build --target selfwire -t selfwire .
#   docker run --rm -v selfwire:/data selfwire run hiva "What is 3 plus 4?"
# Add --build-arg PACKAGES="torch sentence-transformers" for EvoMAS's trained router and MiniLM's embeddings.

FROM python:3.11-slim-bookworm AS build
ARG PACKAGES=""
WORKDIR /build
COPY requirements-light.txt constraints.txt ./
RUN python -m venv /opt/selfwire
ENV PATH=/opt/selfwire/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=constraints.txt
# shellcheck disable=SC2086  # several packages
RUN pip install -r requirements-light.txt 'psycopg[binary]' langgraph-checkpoint-postgres $PACKAGES
COPY . .
RUN pip install --no-deps . && python -m compileall -q /opt/selfwire

FROM build AS build-studio
# hadolint ignore=DL3013  # constraints.txt pins it
RUN pip install 'langgraph-cli[inmem]'

FROM python:3.11-slim-bookworm AS base
RUN useradd --create-home --uid 1000 selfwire && install --directory --owner=selfwire /data /config
ENV PATH=/opt/selfwire/bin:$PATH PYTHONDONTWRITEBYTECODE=1 SELFWIRE_HOME=/data SELFWIRE_CONFIG_HOME=/config HF_HUB_OFFLINE=1 \
    LANGSMITH_TRACING=false
WORKDIR /data
VOLUME ["/data", "/config"]

FROM base AS studio
COPY --from=build-studio /opt/selfwire /opt/selfwire
COPY langgraph.json /opt/langgraph.json
USER 1000
ENV LANGGRAPH_CLI_NO_ANALYTICS=1 LANGGRAPH_NO_VERSION_CHECK=1
EXPOSE 2024
HEALTHCHECK --start-period=60s --interval=30s --timeout=5s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:2024/ok', timeout=4)"]
CMD ["langgraph", "dev", "--config", "/opt/langgraph.json", "--host", "0.0.0.0", "--port", "2024", "--no-browser", "--no-reload"]

FROM base AS selfwire
COPY --from=build /opt/selfwire /opt/selfwire
USER 1000
ENTRYPOINT ["selfwire"]
CMD ["--help"]
