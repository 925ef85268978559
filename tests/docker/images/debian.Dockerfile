# What all stand-ins stand on: Debian's smallest system, with the machine's own certificates and sources of packages.
FROM fate-dp-test/minbase:latest
# Beside those of Debian, which its package of certificates writes anew.
COPY certificates.crt /etc/ssl/machine.crt
COPY sources.list /etc/apt/sources.list
ENV PIP_CERT=/etc/ssl/machine.crt PIP_DISABLE_PIP_VERSION_CHECK=1 DEBIAN_FRONTEND=noninteractive
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d \
 && apt-get -qq update && apt-get -qq install --no-install-recommends -y curl >/dev/null
