"""The types of arguments: a public call with a value of another type raises ``InvalidInput`` before anything happens.

``check_arguments`` reads the annotations of a function at its first call. From then on one look at the type of each
argument is enough in the usual case. A name that a module imports for type checkers only is imported when a value has to
be compared with it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from types import FunctionType, NoneType, UnionType
from typing import IO, Any, BinaryIO, ForwardRef, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from lukasa.errors import InvalidInput, LukasaError

Fits = Callable[[Any], bool]
Position = tuple[str, frozenset[type] | None, Fits]
Target = TypeVar("Target", bound=Callable[..., Any])
_CONTAINERS = (list, tuple, set, frozenset, dict)
_TEXTS = (str, bytes, bytearray)


class ExpectedType(NamedTuple):
    """What a parameter takes: the types that fit at once (``None``: all), and a test for values of other types."""

    exact: frozenset[type] | None
    fits: Fits

    def accepts(self, value: Any) -> bool:
        return self.exact is None or type(value) in self.exact or self.fits(value)

    def accepts_all(self, values: Iterable[Any]) -> bool:
        return self.exact is None or self.exact.issuperset(map(type, values)) or all(map(self.accepts, values))


ExpectedTypes = tuple[Sequence[Position], Mapping[str, ExpectedType]]
ANYTHING = ExpectedType(None, lambda _: True)


def check_arguments(target: Target) -> Target:
    """Check the arguments of a function, or of every public method of a class, at each call.

    A method that returns refusals judges a value of a wrong type itself, unless it would take the value for something else.
    What it does not expect becomes ``InvalidInput`` too.
    """
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if isinstance(member, FunctionType) and (name == "__call__" or not name.startswith("_")):
                setattr(target, name, check_arguments(member))
        return target
    function: Any = target
    returned = str(function.__annotations__.get("return"))
    refuses = ("Outcome" in returned or "Refused" in returned) and not inspect.isgeneratorfunction(function)
    signature: ExpectedTypes | None = None

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        nonlocal signature
        if signature is None:
            signature = _read_signature(function)
        positional, named = signature
        for value, (_, exact, fits) in zip(arguments, positional):  # noqa: B905 - Python refuses one too many
            if exact is not None and type(value) not in exact and not fits(value):
                break
        else:
            for name, value in options.items():
                exact, fits = named.get(name, ANYTHING)
                if exact is not None and type(value) not in exact and not fits(value):
                    break
            else:
                if len(arguments) <= len(positional) or named["*"].accepts_all(arguments[len(positional) :]):
                    return function(*arguments, **options)
        misfits = list(_find_misfits(positional, named, arguments, options))
        errors = [_describe_misfit(function, *misfit) for misfit in misfits]
        if not refuses or any(misleads(value, expected) for _, value, expected in misfits):
            raise errors[0]
        try:
            return function(*arguments, **options)
        except LukasaError:
            raise
        except Exception as error:
            raise errors[0] from error

    return checked  # type: ignore[return-value]  # the wrapper has the signature of the function


def _find_misfits(
    positional: Sequence[Position],
    named: Mapping[str, ExpectedType],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
) -> Iterator[tuple[str, Any, ExpectedType]]:
    """Yield each argument of a wrong type with its name and what is expected."""
    names = [name for name, *_ in positional] + ["*"] * len(arguments)
    for name, value in (*zip(names, arguments, strict=False), *options.items()):
        if not (expected := named.get(name, ANYTHING)).accepts(value):
            yield name, value, expected


def misleads(value: Any, expected: ExpectedType) -> bool:
    """Tell whether a value would be taken for something else: a text for the list of its letters, a text for true."""
    return isinstance(value, str) and (bool in (expected.exact or ()) or expected.accepts([value]))


def _read_signature(function: FunctionType) -> ExpectedTypes:
    """Return what each parameter takes, by position and by name; the name of one such as ``*keys`` is a star."""
    positional: list[Position] = []
    named = {"*": ANYTHING}
    for name, parameter in inspect.signature(function).parameters.items():
        found = read_annotation(parameter.annotation, function)
        if parameter.kind is not parameter.VAR_KEYWORD:
            named["*" if parameter.kind is parameter.VAR_POSITIONAL else name] = found
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append((name, *found))
    return positional, named


def read_annotation(annotation: Any, function: FunctionType) -> ExpectedType:
    """Return what a parameter with an annotation takes."""
    if not isinstance(annotation, str):
        return ANYTHING
    known = {**vars(builtins), **function.__globals__}
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    later = {name: ForwardRef(name, module=function.__module__) for name in names - known.keys()}
    return expect(eval(annotation, known, later))  # noqa: S307 - an annotation in the source of the package


def expect(hint: Any) -> ExpectedType:
    """Return what a type hint takes. Values of a ``Literal`` are left to the service, which lists them when it refuses."""
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
    """Return what a list takes: no text, and in a built-in container only elements of the right type."""
    exact = element.exact or frozenset()
    containers = frozenset(container for container in _CONTAINERS if issubclass(container, kind))

    def fits(value: Any) -> bool:
        if type(value) in containers:
            return exact.issuperset(map(type, value)) or element.accepts_all(value)
        return isinstance(value, kind) and not isinstance(value, _TEXTS)

    return ExpectedType(containers if element.exact is None else frozenset(), fits)


def _expect_entries(key: ExpectedType, element: ExpectedType) -> ExpectedType:
    """Return what a mapping takes: in a dictionary only keys and values of the right type."""

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


def _describe_misfit(function: FunctionType, name: str, value: Any, expected: ExpectedType) -> InvalidInput:
    """Return the error that names an argument of a wrong type and says what to write instead."""
    name = str(inspect.getfullargspec(function).varargs) if name == "*" else name
    annotation = function.__annotations__[name]
    shown = reprlib.repr(value)
    if isinstance(value, str) and expected.accepts([value]):
        hint = f"Write {name}=[{shown}]."
    elif value is None:
        hint = "Leave it out, or give it a value."
    else:
        hint = f"help({function.__qualname__}) describes the parameters."
    return InvalidInput(f"{name} must be {annotation}, not {type(value).__name__}: {shown}.", hint=hint)
