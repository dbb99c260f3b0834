# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the program's text and bytecode say about a place: the shared variables that a line changes, the object whose
method it calls, the values that it reads."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any

_MOST = 60  # characters of an expression or a value
_SCALARS = (bool, int, float, str, bytes, type(None))
_SEQUENCES = (list, tuple, set, frozenset, deque)
_MOST_KEYS = 10_000  # of a dict in which a key is looked for
_ORDINARY_READS = tuple(vars(kind)["__getattribute__"] for kind in (object, type, ModuleType))
_READING = ("all", "any", "isinstance", "len", "list", "max", "min", "set", "sorted", "sum", "tuple")
_classes_of = type.__dict__["__mro__"].__get__
_attributes_of = type.__dict__["__dict__"].__get__
_ENTERS = ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL")
_READS = ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
_WRITES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_NAME", "STORE_DEREF")
_OTHER_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# --- The text


@lru_cache(maxsize=None)
def _statements(file: str) -> list[ast.stmt]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


@lru_cache(maxsize=None)
def _stores(file: str) -> dict[int, list[str]]:
    """Return, for each line that changes attributes, items or globals, the texts of these."""
    stores: dict[int, list[str]] = {}
    for statement in _statements(file):
        names: set[str] = set()
        for node in ast.walk(statement) if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) else ():
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                names.update(node.names)
            elif isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, (ast.Store, ast.Del)):
                stores.setdefault(node.lineno, []).append(node.id)
        for expression in _header(statement):
            for node in ast.walk(expression):
                if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
                    stores.setdefault(node.lineno, []).append(ast.unparse(node))
    return stores


def _header(statement: ast.stmt) -> Iterator[ast.AST]:
    """Return the expressions of a statement, without those of the statements in it."""
    return (node for node in ast.iter_child_nodes(statement) if isinstance(node, (ast.expr, ast.withitem)))


def changes(file: str, line: int) -> bool:
    """Return whether a line changes an attribute, an item or a global."""
    return line in _stores(file)


@lru_cache(maxsize=None)
def _updated(file: str) -> frozenset[tuple[int, str]]:
    """Return the lines and texts of the variables that a statement reads and writes."""
    found: set[tuple[int, str]] = set()
    for statement in _statements(file):
        nodes = [node for expression in _header(statement) for node in ast.walk(expression)]
        variables = [node for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
        read = {ast.unparse(node) for node in variables if isinstance(node.ctx, ast.Load)}
        if isinstance(statement, ast.AugAssign):
            read.add(ast.unparse(statement.target))
        for node in variables:
            if isinstance(node.ctx, ast.Store) and ast.unparse(node) in read:
                found.add((node.lineno, ast.unparse(node)))
    return frozenset(found)


def _expressions(file: str, line: int) -> list[ast.AST]:
    return [node for statement in _statements(file) if statement.lineno == line for node in _header(statement)]


# --- Values. No code of the program is called to get them.


def _value(node: ast.AST, frame: FrameType) -> Any:
    """Return the value of a name, an attribute or an item. LookupError, AttributeError: it is not known."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _variable(node.id, frame)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        reads = _in_class(owner, "__getattribute__")
        if any(reads is ordinary for ordinary in _ORDINARY_READS):
            value = inspect.getattr_static(owner, node.attr)
            if _in_class(value, "__get__") is None:
                return value
    if isinstance(node, ast.Subscript):
        container, key = _value(node.value, frame), _value(node.slice, frame)
        if type(key) in _SCALARS and (type(container) in (list, tuple) or _has_plain_keys(container)):
            return container[key]
    raise LookupError


def _variable(name: str, frame: FrameType) -> Any:
    code, own = frame.f_code, frame.f_locals
    if not code.co_flags & inspect.CO_OPTIMIZED and type(own) is not dict:  # a class with __prepare__()
        raise LookupError
    if name in own:
        return own[name]
    if name in code.co_varnames + code.co_freevars + code.co_cellvars:  # it has no value yet
        raise LookupError
    return dict.__getitem__(frame.f_globals, name)


def _in_class(value: Any, name: str) -> Any:
    """Return an attribute of an object's class, or None. getattr() may call code of a metaclass."""
    for kind in _classes_of(type(value)):
        attributes = _attributes_of(kind)
        if name in attributes:
            return attributes[name]
    return None


def _has_plain_keys(container: Any) -> bool:
    """Return whether it is a dict in which a search calls no code of the program."""
    return type(container) is dict and len(container) <= _MOST_KEYS and all(type(key) in _SCALARS for key in container)


def _is_plain(value: Any, depth: int = 3) -> bool:
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() <= 4 * _MOST)
    if kind not in (dict, str, bytes, *_SEQUENCES):
        return kind in _SCALARS
    if len(value) > _MOST or kind in (str, bytes):
        return len(value) <= _MOST
    items = [*value.keys(), *value.values()] if kind is dict else value
    return depth > 0 and all(_is_plain(item, depth - 1) for item in items)


def _values(nodes: Iterable[ast.AST], frame: FrameType, found: dict[str, str]) -> dict[str, str]:
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            value = _known(node, frame, ...)
            if _is_plain(value) and len(repr(value)) <= _MOST:
                found[ast.unparse(node)] = repr(value)
                continue
        if not isinstance(node, _OTHER_SCOPES):
            _values(ast.iter_child_nodes(node), frame, found)
    return found


def values_in(frame: FrameType) -> str:
    """Return the values that the line of a frame reads, as text, as far as they are numbers, texts and the like."""
    try:
        found = _values(_expressions(frame.f_code.co_filename, frame.f_lineno), frame, {})
    except Exception:  # of an object that does not behave as its class says
        return ""
    return ", ".join(f"{name} is {value}" for name, value in found.items())


def values_after(frame: FrameType) -> str:
    """Return the values that the line of a frame has read. Empty: it has called functions, which may have changed them."""
    nodes = [node for each in _expressions(frame.f_code.co_filename, frame.f_lineno) for node in ast.walk(each)]
    if any(isinstance(node, (ast.Call, ast.Await)) and not _changes_nothing(node, frame) for node in nodes):
        return ""
    return values_in(frame)


def _changes_nothing(node: ast.Call | ast.Await, frame: FrameType) -> bool:
    """Return whether it is a call of a builtin function that reads its argument."""
    function = getattr(node, "func", None)
    name = function.id if isinstance(function, ast.Name) else ""
    return name in _READING and _known(ast.Name(name, ast.Load()), frame) is None


# --- The place in a line


@lru_cache(maxsize=None)
def _instructions(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


@lru_cache(maxsize=None)
def _leaves(code: CodeType, at: int, line: int) -> bool:
    for instruction in _instructions(code):
        if instruction.offset >= at:
            if instruction.positions is None or instruction.positions.lineno != line:
                return True
            if instruction.opname in _ENTERS:
                return False
    return True


def leaves_block(frame: FrameType) -> bool:
    """Return whether a frame, in a line with `with`, leaves the block. Otherwise it enters it."""
    source = linecache.getline(frame.f_code.co_filename, frame.f_lineno).split()[:2]
    if source[:1] != ["with"] and source != ["async", "with"]:
        return False
    return _leaves(frame.f_code, frame.f_lasti, frame.f_lineno)


@lru_cache(maxsize=None)
def _read_and_not_written(code: CodeType, at: int, line: int) -> frozenset[str]:
    read: set[str] = set()
    written: set[str] = set()
    for instruction in _instructions(code):
        if instruction.positions is None or instruction.positions.lineno != line:
            if instruction.offset < at:
                read.clear()
                continue
            break
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            return frozenset()
        name = "]" if instruction.opname in ("BINARY_SUBSCR", "STORE_SUBSCR") else instruction.argval
        if instruction.offset < at and (instruction.opname in _READS or instruction.opname == "BINARY_SUBSCR"):
            read.add(name)
        elif instruction.offset >= at and (instruction.opname in _WRITES or instruction.opname == "STORE_SUBSCR"):
            written.add(name)
    return frozenset(read & written)


def half_done(frame: FrameType) -> str:
    """Return the text of a variable that the line of a frame has read and will write; empty: there is none."""
    names = _read_and_not_written(frame.f_code, frame.f_lasti, frame.f_lineno)
    updated = _updated(frame.f_code.co_filename) if names else frozenset()
    for target in _stores(frame.f_code.co_filename).get(frame.f_lineno, []):
        if (frame.f_lineno, target) not in updated:
            continue
        if target in names or target.rpartition(".")[2] in names or (target[-1] == "]" and "]" in names):
            return target
    return ""


@lru_cache(maxsize=None)
def _called(code: CodeType, at: int) -> ast.expr | None:
    """Return the expression that the instruction belongs to."""
    line, end_line, column, end_column = next(islice(code.co_positions(), at // 2, None), (None,) * 4)
    if line is None or end_line is None:
        return None
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : end_line]]
    if not lines:
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None


class _KnownKeys(ast.NodeTransformer):
    """Replaces variables as keys of items by their values."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        key = _known(node.slice, self.frame, ...)
        if type(key) not in _SCALARS:
            return self.generic_visit(node)
        return ast.Subscript(self.visit(node.value), ast.Constant(key), node.ctx)


def receiver(frame: FrameType, owner: Any) -> str:
    """Return the text of the owner, if the frame calls a method of it now, or enters or leaves its `with`. Empty: the
    text is not known."""
    for node in _expressions(frame.f_code.co_filename, frame.f_lineno):
        if isinstance(node, ast.withitem) and _known(node.context_expr, frame) is owner:
            return _text(node.context_expr, frame)
    call = _called(frame.f_code, frame.f_lasti)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    return _text(call.func.value, frame) if _known(call.func.value, frame, owner) is owner else ""


def call(frame: FrameType) -> str:
    """Return the text of the call that the frame makes now. Empty: it is not known."""
    node = _called(frame.f_code, frame.f_lasti)
    return _text(node, frame) if isinstance(node, ast.Call) else ""


def _known(node: ast.AST, frame: FrameType, default: Any = None) -> Any:
    try:
        return _value(node, frame)
    except Exception:  # LookupError, AttributeError: it is not known
        return default


def _text(node: ast.AST, frame: FrameType) -> str:
    text = ast.unparse(_KnownKeys(frame).visit(ast.parse(ast.unparse(node), mode="eval").body))
    return text if len(text) <= _MOST else ""
