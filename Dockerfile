# The image that manifests/deployment.yaml runs: a virtual environment on a slim Python, without compilers. What is downloaded for it
# has an exact version and is one of the files whose hashes are in requirements/ (`make hashes` writes them).
#
#   docker build --tag aggserver:0.1.0 .

# Exact, for both stages, and changed as any dependency is: the quickest Python that every dependency has wheels for, on Debian's
# stable release, whose SQLite is the newer.
ARG PYTHON=python:3.14.10-slim-trixie

FROM ${PYTHON} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements requirements
# The build backend, which stays in this stage.
RUN python -m pip install --only-binary :all: --require-hashes --requirement requirements/build.txt \
 && python -m venv --without-pip /opt/aggserver
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY aggserver aggserver
# Wheels only: there is no compiler here, and a version without a wheel should say so. The server itself is built of what was copied,
# without isolation, which would download a build backend of its own choice, and installed without a look at any index. Bytecode is
# made now, since the server may write nothing there later; not for the kubernetes client, which is most of the environment and only
# imported for a kubeconfig. The bill of materials is of what is installed then, Debian's packages included: both stages have them.
RUN python -m pip wheel --no-build-isolation --no-deps --wheel-dir dist . \
 && python -m pip --python /opt/aggserver/bin/python install --only-binary :all: --no-compile \
      --require-hashes --requirement requirements/image.txt \
 && python -m pip --python /opt/aggserver/bin/python install --no-compile --no-deps --no-index dist/aggserver-*.whl \
 && /opt/aggserver/bin/python -m compileall -q -x /kubernetes/ /opt/aggserver/lib \
 && /opt/aggserver/bin/aggserver version \
 && python requirements/sbom.py /opt/aggserver > /opt/aggserver/sbom.cdx.json

FROM ${PYTHON}
COPY --from=build /opt/aggserver /opt/aggserver
# The folder of the database, for a container that mounts nothing there.
RUN install --directory --owner=65532 --group=65532 --mode=0700 /var/lib/aggserver
WORKDIR /var/lib/aggserver
# Without privileges a port below 1024 can't be counted on: the server's own default is 443.
ENV PATH=/opt/aggserver/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 AGGSERVER_SECURE_PORT=6443
EXPOSE 6443
# By number, so that runAsNonRoot can be checked without looking into the image.
USER 65532:65532
# The server is process 1 and stops by itself on SIGTERM: no shell and no init in between.
STOPSIGNAL SIGTERM
ENTRYPOINT ["aggserver"]
CMD ["serve"]
