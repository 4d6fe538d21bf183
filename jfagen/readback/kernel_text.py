"""The text of a kernel as something that can be executed for its trace."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from ..algorithm import ALGORITHMS, Algorithm
from .counts import check_counts
from .extensions import Extensions
from .language import Constant, Language, make_triton
from .recorder import Cta, Pointer, ReadbackError, Recorder
from .trace import RoleText, Trace

_FILENAME = "<kernel>"
_ROLE = re.compile(r"\s*#\s*(\w+)")


@dataclass(slots=True)
class KernelText:
    """A parsed kernel file; `trace` executes it.

    Attributes:
        kernel: name of the kernel function.
        signature: parameter -> type, as the file declares it.
        algorithm: whose mathematics it is.
        constants: the named numbers of the file.
        default_warps: warps of the role that declares none.
    """

    text: str
    kernel: str
    signature: dict[str, str]
    algorithm: Algorithm
    names: dict[int, str]
    code: Any
    constants: dict[str, int] = field(default_factory=dict)
    default_warps: int = 4

    def trace(self, trips: tuple[int, ...], *, full: bool = False, cta: Cta | None = None) -> Trace:
        """Return what every role of one CTA does for tiles with these numbers of steps.

        Args:
            trips: steps of each tile.
            full: whether the last step of every tile has all of its rows.
            cta: which CTA is executed; the only one if None.

        Raises:
            ReadbackError: the text does something that cannot be read back.
        """
        probe = self.algorithm.probe(trips, self.constants, full)
        recorder = Recorder(
            _FILENAME, self.names, trips, replace(cta or Cta(), tile_lists=probe.tile_lists)
        )
        space, roles = self._space(recorder)
        try:
            values = {
                name: _argument(name, kind, probe.arguments)
                for name, kind in self.signature.items()
            }
            space[self.kernel](**values)
            for description, body in roles:
                self._run_role(recorder, description, body)
        except ReadbackError:
            raise
        except Exception as error:
            raise ReadbackError(f"{type(error).__name__}: {error}", recorder.line()) from error
        trace = replace(recorder.trace(), default_warps=self.default_warps)
        check_counts(trace, self.default_warps)
        return trace

    def spare_tiles(self, tiles: int) -> int:
        """Return how many ids past the last of some tiles a grid may hold."""
        return self.algorithm.probe((0,) * tiles, self.constants, False).spare

    def _space(self, recorder: Recorder) -> tuple[dict[str, Any], list[Any]]:
        """Return the file's names after its top level has run, and the list of its roles."""
        roles: list[Any] = []
        space: dict[str, Any] = {
            "triton": make_triton(),
            "tl": Language(recorder),
            "tlx": Extensions(recorder),
            "math": math,
            "torch": SimpleNamespace(),
            "__roles": roles,
        }
        exec(self.code, space)
        return space, roles

    def _run_role(self, recorder: Recorder, description: dict[str, Any], body: Any) -> None:  # noqa: ANN401
        for replica in range(int(description.get("replicate", 1))):
            recorder.replica = replica
            body()
            registers = description.get("registers")
            recorder.finish_role(
                RoleText(
                    name=description["name"],
                    replica=replica,
                    warps=int(description.get("num_warps", 0)),
                    registers=None if registers is None else int(registers),
                )
            )


def _argument(name: str, kind: str, arguments: Mapping[str, object]) -> object:
    if kind.startswith("tensordesc"):
        return name
    value = arguments.get(name)
    if kind.startswith("*"):
        return Pointer(name, tuple(value) if isinstance(value, list | tuple) else None)
    return 1.0 if value is None and kind.startswith("fp") else value


def parse_kernel(text: str) -> KernelText:
    """Return a kernel file ready to be executed for its trace.

    Raises:
        ReadbackError: it is not a kernel file of this compiler, or not Python.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ReadbackError(f"not Python: {error.msg}", error.lineno or 0) from None
    constants = _literals(tree)
    kernel, signature = constants.get("KERNEL"), constants.get("SIGNATURE")
    algorithm = ALGORITHMS.get(str(constants.get("ALGORITHM")))
    if not isinstance(kernel, str) or not isinstance(signature, dict) or algorithm is None:
        raise ReadbackError("the file declares no KERNEL, SIGNATURE and ALGORITHM", 1)
    lines = text.split("\n")
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == kernel:
            node.body = [new for old in node.body for new in _lift_roles(old, lines)]
    names = {
        node.lineno: node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    code = compile(ast.fix_missing_locations(tree), _FILENAME, "exec")
    parsed = KernelText(text, kernel, signature, algorithm, names, code)
    space, _ = parsed._space(Recorder(_FILENAME, names, (), Cta()))
    parsed.default_warps = int(constants.get("OPTIONS", {}).get("num_warps", 4))
    parsed.constants = {name: int(v) for name, v in space.items() if isinstance(v, Constant)}
    return parsed


def _literals(tree: ast.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def _lift_roles(node: ast.stmt, lines: list[str]) -> list[ast.stmt]:
    """Turn `with tlx.async_tasks()` into functions, one for each role, that are run later."""
    if not isinstance(node, ast.With):
        return [node]
    lifted: list[ast.stmt] = []
    for index, role in enumerate(node.body):
        if not isinstance(role, ast.With):
            raise ReadbackError("only roles may stand inside `async_tasks`", role.lineno)
        call = role.items[0].context_expr
        if not isinstance(call, ast.Call):
            raise ReadbackError("not a role", role.lineno)
        comment = _ROLE.match(lines[role.lineno - 2])
        if comment is None:
            raise ReadbackError("the role has no comment with its name", role.lineno)
        name = f"__role_{index}"
        function = ast.parse(f"def {name}(): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = role.body
        keywords = [*call.keywords, ast.keyword("name", ast.Constant(comment[1]))]
        entry = ast.parse(f"__roles.append((dict(), {name}))").body[0]
        assert isinstance(entry, ast.Expr) and isinstance(entry.value, ast.Call)
        pair = entry.value.args[0]
        assert isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Call)
        pair.elts[0].keywords = keywords
        lifted += [ast.copy_location(function, role), ast.copy_location(entry, role)]
    return lifted
