#!/usr/bin/env bash
# The container's program: configures the party from its environment, starts FATE-Flow and FATE-Board, ends with them.
#   start.sh              run
#   start.sh healthy      exit status 0 if FATE-Flow answers
#   start.sh COMMAND ...  another command in the same environment, such as fate-dp ledger
set -euo pipefail
# Ledgers, keys, logs and tables are for this user alone.
umask 077

project=${FATE_PROJECT:-/data/projects/fate}
if [ -f "$project/bin/init_env.sh" ]; then
    set +u
    # shellcheck disable=SC1091
    source "$project/bin/init_env.sh"
    set -u
fi

case "${1:-run}" in
    run) ;;
    healthy) exec python -m fate_dp.deploy.docker.health ;;
    *) exec "$@" ;;
esac

service() {
    # The board of FATE 2.2.0 cannot sign what a FATE-Flow with client authentication asks for; configure.py says so.
    if [ "${FATE_DP_CLIENT_AUTHENTICATION:-off}" != on ]; then
        (cd "$project/fateboard" && bash service.sh "$1") || true
    fi
    # FATE-Flow's script gives a server 5 s to listen and then calls it failed, while it goes on starting.
    (cd "$project/fate_flow" && bash bin/service.sh "$1") || true
}

python -m fate_dp.deploy.docker.configure
# Messages of other parties are fenced; tasks start warm, from a fork server that the first of them starts, and wait for
# the broker's queues. Of the container's environment, FATE_DP_FENCE_ALLOW lets in more, FATE_DP_WARM_START=off starts cold.
# install.sh has written the folder into init_env.sh as well, which FATE-Flow's own script reads again.
PYTHONPATH=$(python -c 'import fate_dp.deploy.site as site; print(site.__path__[0])')${PYTHONPATH:+:$PYTHONPATH}
FATE_DP_WARM_FOLDER=$(dirname "${FATE_DP_HOME:-/var/lib/fate-dp/parties}")/warm
export PYTHONPATH FATE_DP_WARM_FOLDER
trap 'service stop; exit 0' TERM INT
service start

# The servers run in the background; the container ends when FATE-Flow has not answered three times in a row. Until its
# first answer it is given 120 s more, as the image's health check gives it.
missed=-12
while [ "$missed" -lt 3 ]; do
    sleep 10 &
    wait $!
    if python -m fate_dp.deploy.docker.health; then missed=0; else missed=$((missed + 1)); fi
done
echo "FATE-Flow does not answer; the container ends, and its logs are in $project/fate_flow/logs." >&2
exit 1
