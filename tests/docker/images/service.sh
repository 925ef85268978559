#!/bin/bash
# service.sh start|stop: FATE-Flow in the background, as the script of that name in FATE's own image does it.
base=/data/projects/fate
source $base/bin/init_env.sh
server=$base/fate_flow/python/fate_flow/fate_flow_server.py
case "$1" in
    start)
        mkdir -p $base/fate_flow/logs
        nohup python $server >>$base/fate_flow/logs/console.log 2>>$base/fate_flow/logs/error.log &
        ;;
    stop) pkill -f "^python $server" ;;
esac
