# What a shell needs to find FATE's Python and packages; to be read with `source`.
export FATE_PROJECT_BASE=/data/projects/fate
export PYTHONPATH=$FATE_PROJECT_BASE/fate/python:$FATE_PROJECT_BASE/fate_flow/python
export PATH=$FATE_PROJECT_BASE/env/python/venv/bin:$PATH
