# A CPU image of contig.
#   docker build -t contig --build-arg TORCH_INDEX=ADDRESS .
#   docker run --rm -v "$PWD:/events" contig train events.csv --out runs/first
# ADDRESS is PyTorch's index of CPU builds (see "Get started" on its site). The default build brings gigabytes of
# CUDA packages.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir hatchling==1.33.0 \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist .

FROM python:3.12-slim
ENV PYTHONUNBUFFERED=1 CONTIG_CACHE=/var/cache/contig
ARG TORCH_INDEX=""
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /dist /dist
RUN pip install --no-cache-dir -c /tmp/constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.13.0 \
    && pip install --no-cache-dir -c /tmp/constraints.txt /dist/*.whl \
    && rm -rf /dist /tmp/constraints.txt \
    && useradd --uid 1000 contig \
    && install --directory --owner contig "$CONTIG_CACHE"
USER 1000
WORKDIR /events
ENTRYPOINT ["contig"]
CMD ["--help"]
