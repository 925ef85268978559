#!/bin/sh
# The management plugin's program cannot be told to run as another user, so that all in here is RabbitMQ's user's.
set -e
if [ ! -e "$HOME/.erlang.cookie" ]; then
    umask 077
    head -c 18 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$HOME/.erlang.cookie"
fi
exec "$@"
