#!/usr/bin/env bash
# The container's program: configures the party from its environment, starts FATE-Flow and FATE-Board, ends with them.
#   start.sh              run
#   start.sh healthy      exit status 0 if FATE-Flow answers, and the broker where there is one
#   start.sh COMMAND ...  another command in the same environment, such as fate-dp ledger; it waits where FATE-Flow is about
#                         to start, and asks this container's FATE-Flow unless it names another
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

# There while FATE-Flow is given time to answer first.
starting=$project/fate_flow/logs/starting
await() {
    for pause in $(seq 150); do
        [ -e "$starting" ] || return 0
        if [ "$pause" = 1 ]; then echo "FATE-Flow is still starting." >&2; fi
        sleep 1
    done
}

case "${1:-run}" in
    run)
        # First of all, so that a command that comes at once waits.
        mkdir -p "$(dirname "$starting")"
        touch "$starting"
        trap 'rm -f "$starting"' EXIT
        ;;
    healthy) exec python -m fate_dp.deploy.docker.health ;;
    *)
        await
        export FATE_DP_FLOW=${FATE_DP_FLOW:-${FATE_DP_HOST:-$HOSTNAME}:9380}
        exec "$@"
        ;;
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
PYTHONPATH=$(python -c 'import fate_dp.deploy.fate_patches as patches; print(patches.__path__[0])')${PYTHONPATH:+:$PYTHONPATH}
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
    if python -m fate_dp.deploy.docker.health server; then
        missed=0
        rm -f "$starting"
    else
        missed=$((missed + 1))
    fi
done
echo "FATE-Flow does not answer; the container ends, and its logs are in $project/fate_flow/logs." >&2
exit 1
