"""What a task leaves behind: a JSON document, in which the statistics stand, and flat facts for FATE-Board."""
from .account import OBSERVERS, pooled_epsilon
from .requests import MEAN
from .settings import Settings
from .statistics import CONFIDENCE


# Relative: from here on a reader may ask why epsilon is not what was asked for.
NOTICEABLE = 0.02
WHY_LESS = (
    "bounds for shuffling are proved up to epsilon0 = ln(messages / (16 ln(4 / delta))) only, where epsilon is this; with a "
    "larger epsilon0 a record would pay all of it"
)


def document(terms: dict, statistics) -> dict:
    """The model document; ``statistics`` is None at the shuffler, which gets none."""
    settings, epsilon0 = Settings.from_json(terms["settings"]), terms["epsilon0"]
    privacy = {
        "unit": "record", "relation": "replace_one", "observers": list(OBSERVERS), "epsilon": terms["epsilon"],
        "delta": settings.delta, "epsilon0": epsilon0,
        "epsilon if shuffler and server pool what they see": pooled_epsilon(settings.requests, epsilon0),
    }  # fmt: skip
    return {"meta": {**terms["settings"], "privacy": privacy, "confidence": CONFIDENCE},
            "data": {"statistics": statistics}}  # fmt: skip


def summary(result: dict, records: int) -> dict:
    """Flat scalars for FATE-Board, of a document with statistics."""
    meta, privacy = result["meta"], result["meta"]["privacy"]
    facts = {
        "mechanism": "randomised response on the values of columns, one shuffled message per record and request",
        "epsilon (nats, unit record, replace-one)": privacy["epsilon"],
        "delta": privacy["delta"],
        "observers": ", ".join(privacy["observers"]),
        "epsilon0 of one message (nats)": privacy["epsilon0"],
        "epsilon if shuffler and server pool what they see": privacy[
            "epsilon if shuffler and server pool what they see"
        ],
        "least messages": meta["least_messages"],
        "records of this party": records,
        "records of all parties": result["data"]["statistics"][0]["messages"],
    }
    asked = meta["epsilon"]
    if asked is not None and privacy["epsilon"] < asked * (1 - NOTICEABLE):
        facts[f"why less than epsilon {asked:g}"] = WHY_LESS
    for item in result["data"]["statistics"]:
        facts.update(_lines(item))
    return facts


def _lines(item):
    if item["kind"] == MEAN:
        return _line(f"mean of {item['column']}", item)
    lines = {}
    for share in item["shares"]:
        where = f"= {share['value']}" if "value" in share else f"from {share['from']:g} to {share['to']:g}"
        lines.update(_line(f"share of {item['column']} {where}", share))
    return lines


def _line(name, found):
    return {name: found["estimate"], f"{name}, standard error": found["standard_error"]}
