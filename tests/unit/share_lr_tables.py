"""Stand-ins for FATE's tables and parties, for two parties in two threads of one process."""

import queue
from functools import reduce


class LocalTable:
    """A table of one partition in memory, with the methods of FATE's that share_lr calls."""

    def __init__(self, items):
        self._items = list(items)

    def collect(self):
        return list(self._items)

    def mapValues(self, function):
        return LocalTable([(key, function(value)) for key, value in self._items])

    def mapPartitions(self, function, preserves_partitioning=False):
        return LocalTable(function(iter(self._items)))

    num_partitions = 1

    def map_reduce_partitions_with_index(self, function, output_num_partitions):
        return LocalTable(function(0, iter(self._items)))

    def reduce(self, function):
        return reduce(function, (value for _, value in self._items))

    def join(self, other, function):
        there = dict(other.collect())
        return LocalTable([(key, function(value, there[key])) for key, value in self._items if key in there])


class Mailbox:
    """One party's view of the other: what is put here is got there, by name."""

    def __init__(self, own, other):
        self._own, self._other = own, other

    @classmethod
    def pair(cls):
        first, second = _Box(), _Box()
        return cls(first, second), cls(second, first)

    def put(self, name, value):
        self._other.of(name).put(value)

    def get(self, name):
        return self._own.of(name).get(timeout=600)


class _Box:
    def __init__(self):
        self._queues = {}

    def of(self, name):
        return self._queues.setdefault(name, queue.Queue())
