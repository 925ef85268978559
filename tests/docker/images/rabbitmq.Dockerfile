# Stands in for rabbitmq:3.13.7-management: Debian's RabbitMQ with the management plugin, its user with the number that
# the official image gives it.
FROM fate-dp-test/debian:latest
RUN groupadd --gid 999 --non-unique rabbitmq && useradd --uid 999 --non-unique --gid 999 --home-dir /var/lib/rabbitmq rabbitmq \
 && apt-get -qq install --no-install-recommends -y rabbitmq-server >/dev/null \
 && rabbitmq-plugins enable --offline rabbitmq_management >/dev/null \
 && mkdir -p /etc/rabbitmq/conf.d && chown -R 999:999 /var/lib/rabbitmq /var/log/rabbitmq /etc/rabbitmq
ENV HOME=/var/lib/rabbitmq RABBITMQ_LOGS=-
COPY rabbitmq-entrypoint.sh /
USER 999:999
VOLUME /var/lib/rabbitmq
ENTRYPOINT ["/rabbitmq-entrypoint.sh"]
CMD ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
