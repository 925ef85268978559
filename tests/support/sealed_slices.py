"""What a party sends that has its keys and keeps to nothing else, and what those who carry messages can do with slices."""

from fate_dp.components.common.wire.channel import Channel


def push_sealed(channel: Channel, receiver: tuple[str, str], part: bytes) -> None:
    """Send a mark and a content, sealed as the next slice."""
    line, (key, _) = channel._lines[receiver], channel._keys(receiver)
    push_open(channel, receiver, part[:1] + key.seal(line.sent, part[:1], part[1:]))


def push_open(channel: Channel, receiver: tuple[str, str], part: bytes) -> None:
    """Send these bytes as the next slice."""
    channel._push_slice(receiver, channel._lines[receiver], part)
