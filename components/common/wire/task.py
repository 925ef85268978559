"""Where FATE's executor enters one of our components: from here on the context's messages are plain values."""
from contextlib import contextmanager
from functools import wraps

from fate_dp.components.common.preflight import Refused


def with_plain_messages(stage):
    """A component's function, called as FATE calls it, with the context of `plain_messages`."""

    @wraps(stage)
    def called(ctx, *args, **kwargs):
        with plain_messages(ctx) as plain:
            return stage(plain, *args, **kwargs)

    called.has_plain_messages = True
    return called


@contextmanager
def plain_messages(ctx):
    """A context whose messages are plain values; if this party fails in it, all others learn that, and stop.

    A refusal of `preflight.agree` is known to all already. Within such a context it is the same one again.

    Raises:
        Refused: what another party sent could not be read, or another party stopped; the same sentence everywhere.
    """
    # FATE's context takes torch along, and FATE imports the entry points of all components to find one.
    from .channel import MalformedMessage, Stopped
    from .context import PlainContext

    if isinstance(ctx, PlainContext):
        yield ctx
        return
    plain = PlainContext(ctx)
    try:
        yield plain
    except Refused:
        raise
    except (MalformedMessage, Stopped) as error:
        raise Refused(plain.channel.stop(error)) from error
    except Exception as error:
        plain.channel.stop(error)
        raise
