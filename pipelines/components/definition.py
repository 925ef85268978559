"""What the client classes share: where a component's definition lies, and checks of values that were given."""
from pathlib import Path

from fate_client.pipeline.conf.types import PlaceHolder


def definition_path(component: str) -> str:
    """Absolute path of a component's YAML: fate_client would look for a relative one inside itself."""
    return str(Path(__file__).parent / f"{component}.yaml")


def check_given(checks: dict, values: dict) -> None:
    """Call ``checks[name](values[name])`` for every parameter that was given."""
    for name, check in checks.items():
        if not isinstance(values[name], PlaceHolder) and values[name] is not None:
            check(values[name])
