"""FATE parameter types made from the checks: FATE shows the sentence that a check raises."""
from fate.components.core.params import Parameter


def checked(check, title: str):
    """A FATE parameter type whose value is whatever ``check(value)`` returns."""

    class Checked(Parameter):
        @classmethod
        def parse(cls, value):
            return check(value)

        @classmethod
        def schema(cls):
            return {"title": title, "description": (check.__doc__ or title).strip().splitlines()[0]}

    Checked.__name__ = Checked.__qualname__ = title
    return Checked
