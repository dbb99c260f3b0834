# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes Markdown of the Python package's API: the names in __all__, with the signatures of the stubs and the docstrings
of the modules and of the extension's sources. Nothing is imported or built."""

import ast
import re
from pathlib import Path

from comments import fenced, member, prose

STRING = r'"((?:[^"\\]|\\.)*)"'
MODULES = ("monkey", "socket", "ssl", "subprocess", "signal", "selectors")


def docstrings_in_c(folder: Path) -> "dict[str, str]":
    """The docstrings of the extension: {"spawn": ..., "Lock": ..., "Lock.acquire": ...}."""
    found = {}
    for path in sorted(folder.glob("*.cc")):
        text = path.read_text(encoding="utf-8")
        macros = re.findall(r"#define (\w+_DOC)((?:.*\\\n)+.*)", text)
        for name, value in macros:
            text = re.sub(rf"\b{name}\b(?! +\\)", value.replace("\\\n", "\n").replace("\\", "\\\\"), text)
        text = re.sub(r'"\s*\n\s*"', "", text)  # adjacent strings
        for name, doc in re.findall(rf'"fiberrt\.(\w+)",\s*{STRING}', text):
            found[name] = doc
        for name, doc in re.findall(rf'tp_name = "fiberrt\.(\w+)";.*?tp_doc = {STRING}', text, re.S):
            found[name] = doc
        for name, doc in re.findall(rf'module\.def\(\s*"(\w+)",.*?{STRING}\);', text, re.S):
            found[name] = doc
        for array, body in re.findall(r"PyMethodDef (\w+)\[\] = \{\n(.*?)\n\};", text, re.S):
            kind = array.removesuffix("methods").rstrip("_") or path.stem
            owner = "" if array.endswith("_functions") else f"{kind}."
            for name, doc in re.findall(rf'\{{"(\w+)",[^"]*?{STRING}', body):
                found[owner + name] = doc
    return {name: doc.replace("\\n", "\n").replace('\\"', '"').split("\n--\n\n")[-1] for name, doc in found.items()}


def documented(tree: ast.Module) -> "dict[str, ast.AST]":
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def signature(node: ast.AST) -> str:
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases if "Generic" not in ast.unparse(base)]
        return f"class {node.name}" + (f"({', '.join(bases)})" if bases else "")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = [ast.unparse(decorator) for decorator in node.decorator_list]
    if "property" in kind:
        return node.name + returns.replace(" -> ", ": ")
    arguments = node.args
    for some in (arguments.posonlyargs, arguments.args):
        some[:] = [argument for argument in some if argument.arg not in ("self", "cls")]
    return f"{node.name}({ast.unparse(arguments).replace('=', ' = ')}){returns}"


def text_of(doc: "str | None") -> "list[str]":
    return prose((doc or "").split("\n"), "python")


def entry(name: str, node: "ast.AST | None", in_c: "dict[str, str]") -> "list[str]":
    doc = ast.get_docstring(node) if node else None
    lines = [f"## {name}", ""]
    if node is not None:
        init = next((item for item in getattr(node, "body", []) if getattr(item, "name", "") == "__init__"), None)
        head = signature(node)
        if init is not None and isinstance(node, ast.ClassDef):
            head += "\n" + signature(init).replace("__init__", node.name, 1).removesuffix(" -> None")
        lines += fenced("python", [head])
    lines += text_of(doc or in_c.get(name)) + [""]
    methods = [item for item in getattr(node, "body", [])
               if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]  # fmt: skip
    about = {item: ast.get_docstring(item) or in_c.get(f"{name}.{item.name}") or in_c.get(f"{name.lower()}.{item.name}")
             for item in methods}  # fmt: skip
    bare = [signature(item) for item in methods if not about[item]]
    lines += member(bare, "python", []) if bare else []
    for item in methods:
        lines += member([signature(item)], "python", text_of(about[item])) if about[item] else []
    return lines


def page(package: Path) -> str:
    """`package`: bindings/python/src."""
    source = package / "fiberrt"
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in source.glob("*.py*")}
    init = trees["__init__"]
    public = next(ast.literal_eval(node.value) for node in init.body
                  if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")  # fmt: skip
    nodes = {}
    for stem in sorted(trees, key=lambda stem: stem == "_fiberrt"):
        if stem.startswith("_") and stem != "__init__":
            nodes = {**documented(trees[stem]), **nodes}
    in_c = docstrings_in_c(package / "_fiberrt")
    lines = ["# Python: the API", "", *text_of(ast.get_docstring(init)), ""]
    for name in sorted(public, key=str.lower):
        if name.isupper():
            continue
        lines += entry(name, nodes.get(name), in_c)
    constants = [f"`{name}`" for name in public if name.isupper()]
    lines += ["## Constants", "", ", ".join(constants) + ": for [wait](#wait).", ""]
    for module in MODULES:
        lines += [f"## fiberrt.{module}", "", *text_of(ast.get_docstring(trees[module])), ""]
    return "\n".join(lines)
