# Stands in for federatedai/standalone_fate:2.2.0: FATE as PyPI has it, laid out as in that image. There is no board, only
# the folders that one has.
FROM fate-dp-test/packages:latest
# FATE's image has a client of RabbitMQ; pip brings it by an extra of FATE-Flow, which pins it.
RUN apt-get -qq update && apt-get -qq install --no-install-recommends -y procps gcc libc6-dev >/dev/null
WORKDIR /data/projects/fate
COPY certificates.crt /etc/ssl/machine.crt
ENV PIP_CERT=/etc/ssl/machine.crt
RUN env/python/venv/bin/python -m pip -q install --no-deps pika==1.2.1
COPY init_env.sh bin/init_env.sh
COPY service.sh fate_flow/bin/service.sh
COPY board.sh fateboard/service.sh
COPY reader.yaml fateboard/dag/reader.yaml
COPY application.properties fateboard/conf/application.properties
COPY flow.py env/python/venv/bin/flow
CMD ["bash"]
