"""Tasks of FATE that wait until the broker has made a queue.

Python runs this module when it starts with this folder on PYTHONPATH. Two parties of a task make its virtual host at
RabbitMQ at the same moment. The second is told that it exists while RabbitMQ still starts it, and may then be refused
the queue that it asks for. FATE 2.2.0 takes no notice: what it sends to that queue is lost, and the other party waits
for ever. Here the queue is asked for until it is there, and a task that does not get it fails and says so.

It imports nothing but Python's own, since every process of FATE-Flow starts with it.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time

MODULE = "fate.arch.federation.backends.rabbitmq._rabbit_manager"
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.1


class PatientQueues(importlib.abc.MetaPathFinder):
    """Changes FATE's module when it is imported, and no import otherwise."""

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        specification = importlib.util.find_spec(name)
        if specification is not None and specification.loader is not None:
            execute = specification.loader.exec_module

            def exec_module(module):
                execute(module)
                make_patient(module.RabbitManager)

            specification.loader.exec_module = exec_module
        return specification


def make_patient(manager):
    """Let `create_queue` of FATE's RabbitManager return when the queue is there."""
    ask_once = manager.create_queue

    def create_queue(self, vhost, queue_name):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ask_once(self, vhost, queue_name):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"The broker at {self.endpoint} did not make the queue {queue_name} within {PATIENCE_SECONDS:.0f} "
                    "seconds; its log says why."
                )
            time.sleep(PAUSE_SECONDS)
        return True

    manager.create_queue = create_queue


def run_the_environments_own():
    """This module hides another of its name, which the environment may have for its own purposes."""
    own = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != own]
    specification = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if specification is not None and specification.loader is not None:
        specification.loader.exec_module(importlib.util.module_from_spec(specification))


sys.meta_path.insert(0, PatientQueues())
run_the_environments_own()
