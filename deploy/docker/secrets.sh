#!/usr/bin/env bash
# Makes the secrets of compose.yaml in secrets/, each a file of mode 0600; what is there already is kept.
#   secrets.sh          passwords: the broker's account, and one of each party's FATE-Board
#   secrets.sh --tls    also an authority of your own, and certificates for compose.tls.yaml
# Run it as root where the engine is root's: the files then belong to the users inside the containers.
set -euo pipefail
umask 077

folder=$(cd "$(dirname "$0")" && pwd)/secrets
case "${1:-}" in
    "" | --tls) ;;
    *)
        echo "secrets.sh: '$1' is not an option; there is --tls." >&2
        exit 1
        ;;
esac
command -v openssl >/dev/null || {
    echo "secrets.sh: openssl is not on the PATH; install it." >&2
    exit 1
}
party_user=10001 broker_user=999 nginx_user=101
mkdir -p "$folder"
cd "$folder"

give() {
    chmod 0600 "$2"
    if [ "$(id -u)" = 0 ]; then chown "$1" "$2"; fi
}

password() {
    [ -s "$1" ] || openssl rand -hex 24 >"$1"
    give "$party_user" "$1"
}

password broker_password
for party in guest host arbiter; do password "${party}_board_password"; done
printf 'default_user = fate\ndefault_pass = %s\n' "$(cat broker_password)" >broker_account.conf
give "$broker_user" broker_account.conf

certificate() {
    if [ ! -s "$1.pem" ]; then
        openssl req -newkey rsa:3072 -nodes -keyout "$1.key" -subj "/CN=$1" -out "$1.csr" 2>/dev/null
        printf 'subjectAltName=DNS:%s\nextendedKeyUsage=%s\n' "$1" "$2" >"$1.ext"
        openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days 365 -sha256 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
        rm "$1.csr" "$1.ext"
    fi
    give "$3" "$1.key"
    chmod 0644 "$1.pem"
}

if [ "${1:-}" = --tls ]; then
    if [ ! -s ca.pem ]; then
        openssl req -x509 -newkey rsa:3072 -nodes -keyout ca.key -subj "/CN=fate-dp" -days 3650 -out ca.pem 2>/dev/null
    fi
    chmod 0600 ca.key
    chmod 0644 ca.pem
    certificate broker serverAuth "$broker_user"
    for party in guest host arbiter; do certificate "$party" clientAuth "$nginx_user"; done
    echo "The authority's key, $folder/ca.key, is needed for further certificates only; keep it elsewhere."
fi
echo "Secrets are in $folder."
