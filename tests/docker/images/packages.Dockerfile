# The environment into which FATE's packages are put (standins.py), where FATE's image has it.
FROM python:3.10.16-slim-bookworm
WORKDIR /data/projects/fate
RUN python3 -m venv env/python/venv && env/python/venv/bin/pip -q uninstall --yes setuptools \
 && mkdir -p fate/python fate_flow/python fate_flow/logs
