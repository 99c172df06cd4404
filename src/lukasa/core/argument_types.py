"""The types of arguments: a public call with a value of another type raises ``InvalidInput`` before anything happens.

``check_arguments`` reads the annotations of a function at its first call. A name that a module imports for type checkers
only is imported when a value has to be compared with it. A call from outside is checked. The calls that services make of each
other are not: their arguments come from the first call, or from code with checked types.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from itertools import zip_longest
from types import FunctionType, NoneType, UnionType
from typing import IO, Any, BinaryIO, ForwardRef, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from lukasa.errors import InvalidInput

Fits = Callable[[Any], bool]
Target = TypeVar("Target", bound=Callable[..., Any])
_CONTAINERS = (list, tuple, set, frozenset, dict)
_TEXTS = (str, bytes, bytearray)
_services: set[str] = set()
"""The packages, and the modules outside of them, whose public calls are checked."""


class ExpectedType(NamedTuple):
    """The values that a parameter takes: the types that fit at once (``None``: all), and a test for values of other types."""

    exact: frozenset[type] | None
    fits: Fits

    def accepts(self, value: Any) -> bool:
        return self.exact is None or type(value) in self.exact or self.fits(value)

    def accepts_all(self, values: Iterable[Any]) -> bool:
        return self.exact is None or all(map(self.accepts, values))


ExpectedTypes = tuple[Sequence[str], Mapping[str, ExpectedType]]
"""The names of the parameters that an argument can have by its position, and the values that each parameter takes."""
ANYTHING = ExpectedType(None, lambda _: True)


def check_arguments(target: Target) -> Target:
    """Check the arguments of a function, or of every public method of a class, at each call.

    A call from a service is not checked, unless the service hands on keywords of any name.
    """
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if isinstance(member, FunctionType) and (name == "__call__" or not name.startswith("_")):
                setattr(target, name, check_arguments(member))
        return target
    function: Any = target
    _services.add(
        function.__module__ if function.__module__.count(".") == 1 else function.__module__.rpartition(".")[0]
    )
    signature: ExpectedTypes | None = None

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        nonlocal signature
        caller = getattr(inspect.currentframe(), "f_back", None)  # a name for its own frame would keep it alive
        if caller is not None and not caller.f_code.co_flags & inspect.CO_VARKEYWORDS:
            names = caller.f_globals
            if names.get("__name__") in _services or names.get("__package__") in _services:
                return function(*arguments, **options)
        if signature is None:
            signature = _read_signature(function)
        if misfit := _find_misfit(signature, arguments, options):
            called = function.__qualname__
            if "." in called and arguments:  # the class of the object, which may inherit the method
                called = f"{type(arguments[0]).__name__}.{function.__name__}"
            raise _describe_misfit(function, called, *misfit)
        return function(*arguments, **options)

    return checked  # type: ignore[return-value]  # the wrapper has the signature of the function


def build_check(function: FunctionType, called: str) -> Callable[[Sequence[Any], Mapping[str, Any]], None]:
    """Return a function that raises ``InvalidInput`` if a call with its arguments would have one of a wrong type.

    ``called`` is how the caller writes the call.
    """
    signature = _read_signature(function)

    def check(arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        if misfit := _find_misfit(signature, arguments, options):
            raise _describe_misfit(function, called, *misfit)

    return check


def _find_misfit(
    signature: ExpectedTypes, arguments: Sequence[Any], options: Mapping[str, Any]
) -> tuple[str, Any, ExpectedType] | None:
    """Return the first argument of a wrong type with its name and what is expected."""
    positions, takes = signature
    for name, value in (*zip_longest(positions[: len(arguments)], arguments, fillvalue="*"), *options.items()):
        if not (expected := takes.get(name, ANYTHING)).accepts(value):
            return name, value, expected
    return None


def _read_signature(function: FunctionType) -> ExpectedTypes:
    """Return the values that the parameters of a function take; a parameter such as ``*keys`` has a star as its name."""
    positions: list[str] = []
    takes = {"*": ANYTHING}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            shown = "*" if parameter.kind is parameter.VAR_POSITIONAL else name
            takes[shown] = read_annotation(parameter.annotation, function)
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positions.append(name)
    return positions, takes


def read_annotation(annotation: Any, function: FunctionType) -> ExpectedType:
    """Return the values that a parameter with an annotation takes."""
    if not isinstance(annotation, str):
        return ANYTHING
    known = {**vars(builtins), **function.__globals__}
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    later = {name: ForwardRef(name, module=function.__module__) for name in names - known.keys()}
    return expect(eval(annotation, known, later))  # noqa: S307 - an annotation in the source of the package


def expect(hint: Any) -> ExpectedType:
    """Return the values that a type hint takes. Values of a ``Literal`` are left to the service, which lists them when it refuses."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is None or hint is NoneType:
        return ExpectedType(frozenset({NoneType}), lambda _: False)
    if isinstance(hint, ForwardRef):
        return ExpectedType(frozenset(), lambda value: _fits_later(hint, value))
    if origin in (Union, UnionType):
        return _expect_one_of([expect(part) for part in parts])
    if origin is Literal:
        return _expect_one_of([_expect_class(type(value)) for value in parts])
    if hint is BinaryIO or origin is IO:
        return ExpectedType(frozenset(), lambda value: hasattr(value, "read") or hasattr(value, "write"))
    if origin is not None and issubclass(origin, Mapping):
        return _expect_entries(*(expect(part) for part in parts))
    if origin is not None and issubclass(origin, Iterable):
        element = expect(parts[0]) if len({*parts} - {...}) == 1 else ANYTHING
        return _expect_elements(Sequence if issubclass(origin, Sequence) else origin, element)
    return _expect_class(origin or hint)


def _expect_one_of(choices: Sequence[ExpectedType]) -> ExpectedType:
    if any(choice.exact is None for choice in choices):
        return ANYTHING
    exact = frozenset(kind for choice in choices for kind in choice.exact or ())
    return ExpectedType(exact, lambda value: any(choice.fits(value) for choice in choices))


def _expect_class(kind: Any) -> ExpectedType:
    if kind is Callable:
        return ExpectedType(frozenset({FunctionType}), callable)
    if kind in (Any, object) or not isinstance(kind, type):
        return ANYTHING
    if kind is int:
        return ExpectedType(frozenset({int}), lambda value: hasattr(value, "__index__"))
    if kind is float:
        return ExpectedType(frozenset({float, int}), lambda value: hasattr(value, "__float__"))
    if getattr(kind, "_is_protocol", False) and kind.__module__.startswith("lukasa"):
        return ExpectedType(frozenset(), lambda value: type(value).__module__ != "builtins")
    return ExpectedType(frozenset({kind}), lambda value: isinstance(value, kind))


def _expect_elements(kind: type, element: ExpectedType) -> ExpectedType:
    """Return the values that a list takes: no text, and in a built-in container only elements of the right type."""
    containers = frozenset(container for container in _CONTAINERS if issubclass(container, kind))

    def fits(value: Any) -> bool:
        if type(value) in containers:
            return element.accepts_all(value)
        return isinstance(value, kind) and not isinstance(value, _TEXTS)

    return ExpectedType(containers if element.exact is None else frozenset(), fits)


def _expect_entries(key: ExpectedType, element: ExpectedType) -> ExpectedType:
    """Return the values that a mapping takes: in a dictionary only keys and values of the right type."""

    def fits(value: Any) -> bool:
        if type(value) is dict:
            return key.accepts_all(value) and element.accepts_all(value.values())
        return isinstance(value, Mapping)

    return ExpectedType(frozenset(), fits)


def _fits_later(reference: ForwardRef, value: Any) -> bool:
    """Compare a value with a type that its module imports for type checkers only."""
    name = reference.__forward_arg__
    if any(base.__name__ == name for base in type(value).__mro__):
        return True
    module = sys.modules[str(reference.__forward_module__)]
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return expect(getattr(import_module(node.module), alias.name)).accepts(value)
    return True


def _describe_misfit(
    function: FunctionType, called: str, name: str, value: Any, expected: ExpectedType
) -> InvalidInput:
    """Return the error that names an argument of a wrong type and says what to write instead."""
    name = str(inspect.getfullargspec(function).varargs) if name == "*" else name
    annotation = function.__annotations__[name]
    shown = reprlib.repr(value)
    if isinstance(value, str) and expected.accepts([value]):
        hint = f"Write {name}=[{shown}]."
    elif value is None:
        hint = "Leave it out, or give it a value."
    else:
        hint = f"help({called}) describes the parameters."
    return InvalidInput(f"{name} must be {annotation}, not {type(value).__name__}: {shown}.", hint=hint)
