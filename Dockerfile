# A CPU image of contig.
#   docker build -t contig .
#   docker run --rm -v "$PWD:/work" contig train events.csv --out runs/first
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir hatchling==1.33.0 \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist .

FROM python:3.12-slim
ENV PYTHONUNBUFFERED=1 CONTIG_CACHE=/home/contig/.cache/contig
# The CPU build of torch comes first: the default one brings gigabytes of CUDA packages.
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /dist /dist
RUN pip install --no-cache-dir -c /tmp/constraints.txt --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    && pip install --no-cache-dir -c /tmp/constraints.txt /dist/*.whl \
    && rm -rf /dist /tmp/constraints.txt \
    && useradd --create-home --uid 1000 contig
USER 1000
WORKDIR /work
ENTRYPOINT ["contig"]
CMD ["--help"]
