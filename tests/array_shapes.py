"""The type checker of the tests: it checks the shapes of arrays and leaves all other annotations to pyright.

Values that are not arrays are checked by the package itself, with errors of its own that are tested as well.
"""

import typing
from typing import Any

from beartype import beartype
from jaxtyping import AbstractArray


def arrays_only(function: Any) -> Any:
    """A function whose arguments and result are checked where they are annotated as arrays."""
    shaped = {name: hint for name, hint in function.__annotations__.items() if _has_array(hint)}
    if not shaped:
        return function
    function.__annotations__ = shaped
    return beartype(function)


def _has_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    # What a function that is passed takes and returns is checked where it is defined.
    is_function = "Callable" in str(typing.get_origin(hint))
    return not is_function and any(_has_array(part) for part in typing.get_args(hint))
