"""A folder for PYTHONPATH of a FATE-Flow, whose tasks then wait for the broker's queues; see `sitecustomize`."""
