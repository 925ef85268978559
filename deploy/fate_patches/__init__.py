"""A folder for the PYTHONPATH of a FATE-Flow: the fence, the job gate, warm starts and corrected faults of FATE; see `sitecustomize`."""
