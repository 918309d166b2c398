"""Representation of losses and regularizers."""

from typing import Any


class Shown:
    """The class with its parameters."""

    def __repr__(self) -> str:
        parameters: dict[str, Any] = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        inside = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        return f"{type(self).__name__}({inside})"
