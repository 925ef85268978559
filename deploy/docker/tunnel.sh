#!/usr/bin/env bash
# Prints tunnel.conf, a party's way to the broker, for a machine without docker.
#   tunnel.sh BROKER PARTY FOLDER [CERTIFIED] > FOLDER/tunnel.conf
#   nginx -c FOLDER/tunnel.conf
# BROKER     the broker's address
# PARTY      whose certificate is shown: FOLDER/PARTY.pem with its key FOLDER/PARTY.key
# FOLDER     where these files and the authority's ca.pem are; the tunnel's process id is written there
# CERTIFIED  the name in the broker's certificate, if it is not BROKER; secrets.sh calls it broker
# It needs nginx's stream module: Debian's packages nginx-light and libnginx-mod-stream.
set -euo pipefail

refuse() {
    echo "tunnel.sh: $*" >&2
    exit 1
}

[ $# = 3 ] || [ $# = 4 ] || refuse "give BROKER PARTY FOLDER [CERTIFIED]; $# arguments were given."
broker=$1 party=$2 folder=$3 certified=${4:-$1}
for name in "$broker" "$party" "$certified"; do
    case "$name" in
        "" | *[!A-Za-z0-9._-]*) refuse "'$name' is not a name; it may have letters, digits, '.', '-' and '_'." ;;
    esac
done
case "$folder" in
    *[!A-Za-z0-9._/-]*) refuse "the folder '$folder' may have letters, digits, '.', '-', '_' and '/' only." ;;
    /*) ;;
    *) refuse "the folder '$folder' must begin with '/'." ;;
esac
for file in ca.pem "$party.pem" "$party.key"; do
    [ -f "$folder/$file" ] || refuse "$folder/$file does not exist; secrets.sh --tls makes such files."
done

# Here the system resolves the address, when nginx starts, and only this machine connects.
sed -e '/^ *#/d' -e '/ resolver /d' -e '/ map /d' \
    -e "s|\$broker|$broker|" \
    -e "s|listen tunnel:|listen 127.0.0.1:|" \
    -e "s|proxy_ssl_name broker;|proxy_ssl_name $certified;|" \
    -e "s|/run/secrets/party|$folder/$party|" \
    -e "s|/run/secrets/|$folder/|" \
    -e "s|/tmp/nginx.pid|$folder/tunnel.pid|" "$(dirname "$0")/tunnel.conf"
