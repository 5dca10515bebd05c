# One image for every service of Airflow: the locked environment, the DAGs, and an unprivileged user.
FROM python:3.11.14-slim-bookworm

# 1 adds Debian's ParMETIS and OpenMPI, for the engine parmetis. ParMETIS's licence allows education,
# research and evaluation only, and no redistribution: do not push such an image to a registry.
ARG PARMETIS=0
# 1 adds OpenMPI and ssh, for the engine two-level over MPI. The image has no host keys: deploy/mpi/sshd_config.
ARG MPI=0

COPY .ci/install_parmetis /usr/local/bin/
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libgomp1 \
    && if [ "$PARMETIS" = 1 ]; then install_parmetis && apt-get install -y --no-install-recommends openssh-client; fi \
    && if [ "$MPI" = 1 ]; then apt-get install -y --no-install-recommends openmpi-bin openssh-client openssh-server; fi \
    && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* /usr/local/bin/install_parmetis

# 50000:0 as in Airflow's own image, so that both can use the same volumes.
RUN useradd --uid 50000 --gid 0 --no-create-home --home-dir /tmp airflow \
    && install -d -o 50000 -g 0 -m 775 /opt/airflow /scratch \
    && echo "# Settings come from the environment." > /opt/airflow/airflow.cfg

# Index with the CPU build of torch; used by pip and not stored in the image. PyPI's torch brings several GB of CUDA.
ARG PIP_EXTRA_INDEX_URL
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/partition-ops

# Dependencies first, so that this layer is cached when only our own code changes.
COPY pyproject.toml constraints.txt deploy/image_requirements ./
RUN python -m venv /opt/venv \
    && python image_requirements all airflow cluster > /tmp/requirements.txt \
    && pip install --no-cache-dir --constraint constraints.txt --requirement /tmp/requirements.txt \
    && rm /tmp/requirements.txt

COPY . .
RUN pip install --no-cache-dir --no-deps . \
    && install -m 755 deploy/entrypoint /usr/local/bin/entrypoint

# A container starts with this copy of the compiled loops, see deploy/entrypoint. A processor of another kind than
# that of the build compiles them again.
RUN NUMBA_CACHE_DIR=/opt/numba partition-ops compile \
    && chmod -R a+rX /opt/numba

# Only two folders must be writable: /tmp for small files, /scratch for the stages' files. Put /scratch on a disk,
# because files on a tmpfs count as memory.
ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/partition-ops/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/airflow/plugins \
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=/scratch/logs \
    AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY=/scratch/logs/dag_processor \
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False \
    DO_NOT_TRACK=1 \
    GX_ANALYTICS_ENABLED=false \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/scratch/numba \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SCARF_ANALYTICS=false \
    TMPDIR=/scratch

USER 50000:0
VOLUME /scratch
ENTRYPOINT ["entrypoint"]
CMD ["airflow", "version"]
