"""Differentially private mechanisms: each knows its own sensitivity and emits the event that an accountant charges.

Throughout, ``epsilon`` is in nats and ``rng`` a stream of ``fate_dp.privacy.noise.stream``, None for the operating
system's entropy; one that can be repeated makes an event ``NotPrivate``. ``relation``, ``observers`` and ``unit`` are
those of ``fate_dp.privacy.events``, ``unit`` a record unless said. An argument outside its range raises
`InvalidArgument`, or `InvalidEvent` where it is an event's; both are ValueErrors of one sentence.
"""
