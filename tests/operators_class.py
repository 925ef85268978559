"""Classes that a site's own component may send, or should not."""

import pickle as pickle  # a module that an operator could name


class Rate:
    def __init__(self, value):
        self.value = value
        self.made_by_its_constructor = True

    def __getstate__(self):
        return {"value": self.value}

    def __setstate__(self, state):
        raise AssertionError("the fence runs no method of a class")


class Counted(dict):
    pass


class Slotted:
    __slots__ = ("value",)


class Chooser:
    def __new__(cls):
        raise AssertionError("the fence runs no method of a class")


def function():
    raise AssertionError("the fence runs no function")
