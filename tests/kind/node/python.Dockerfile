# In the place of the Python image that our Dockerfile builds on, where no registry has it: Debian's Python with pip from PyPI, and
# with the certificates and the index that this machine uses.
ARG ROOT
FROM ${ROOT}
ARG PROGRAM
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY pip-*.whl /tmp/
RUN for name in python python3; do ln -sf "/usr/bin/${PROGRAM}" "/usr/local/bin/${name}"; done \
 && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED \
 && printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ndefault-timeout = 180\n' > /etc/pip.conf \
 && wheel=$(echo /tmp/pip-*.whl) \
 && python "${wheel}/pip" install --no-index --root-user-action ignore "${wheel}" \
 && rm /tmp/pip-*.whl \
 && python -m pip --version
