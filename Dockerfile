# encoderlab in a container, for CPUs or for NVIDIA GPUs. It builds without a network, from the wheels that scripts/wheelhouse collects:
#
#     scripts/wheelhouse cpu
#     docker build --network=none --build-arg VARIANT=cpu --build-arg BASE=python:3.12-bookworm --tag encoderlab:cpu .
#
# docs/clusters_and_large_data.md says how to run it and what has been tested.

# A Debian image with the Python that collected the wheels and, for torch.compile, a C++ compiler: the slim images have none. The CUDA
# libraries come with the wheels of VARIANT=cuda; the driver comes from the host.
ARG BASE=python:3.12-bookworm

FROM ${BASE} AS installed
ARG VARIANT=cpu
COPY wheelhouse/${VARIANT} /wheelhouse
RUN python3 -m venv /opt/encoderlab \
    && /opt/encoderlab/bin/pip install --no-cache-dir --no-index /wheelhouse/*.whl

FROM ${BASE}
COPY --from=installed /opt/encoderlab /opt/encoderlab
# Data is read from /data. Runs go to /runs (`outputs/...` is below it), everything that can be rebuilt to /cache, temporary files to /tmp.
# Every user may write there, so --user works, and nothing is written anywhere else, so --read-only works.
RUN mkdir /data && mkdir -m 1777 /runs /cache
ENV PATH=/opt/encoderlab/bin:$PATH \
    ENCODERLAB_CACHE=/cache/encoderlab \
    HF_HOME=/cache/huggingface \
    HOME=/tmp \
    USER=encoderlab
WORKDIR /runs
USER 10001:10001
ENTRYPOINT ["encoderlab"]
CMD ["--help"]
