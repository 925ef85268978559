"""A folder for PYTHONPATH of a FATE-Flow, whose tasks then start warm and wait for queues; see `sitecustomize`."""
