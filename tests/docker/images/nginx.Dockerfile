# Stands in for nginx:1.26.2: Debian's nginx, its user with the number that the official image gives it.
FROM fate-dp-test/debian:latest
RUN groupadd --gid 101 --non-unique nginx && useradd --uid 101 --non-unique --gid 101 --no-create-home nginx \
 && apt-get -qq install --no-install-recommends -y nginx-light libnginx-mod-stream >/dev/null \
 && rm -f /etc/nginx/sites-enabled/default
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
