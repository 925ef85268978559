# Stands in for python:3.10.16-slim-bookworm: Debian's Python, which is 3.11.
FROM fate-dp-test/debian:latest
RUN apt-get -qq install --no-install-recommends -y python3 python3-pip python3-venv python-is-python3 >/dev/null
