"""Check: from the syntax tree to a program, or every mistake at once."""

from __future__ import annotations

from ..diagnostics import Reporter, SourceFile
from ..syntax import ast
from .check_blocks import check_blocks
from .check_buffers import check_buffers
from .check_holders import check_holders
from .check_instances import check_cases
from .check_problem import check_algorithm, check_problem, check_tile
from .check_regions import check_apart, check_regions, check_together
from .check_roles import check_roles
from .check_tiles import check_tiles
from .context import Context
from .instances import Instance, instances
from .loops import is_staggered, loop_of
from .nesting import check_nesting
from .program import Program
from .reserved import check_names


def check(tree: ast.Schedule, source: SourceFile, instance: Instance | None = None) -> Program:
    """Return the program that a syntax tree means, for one instance: the first if None.

    Raises:
        CompileError: with every mistake that was found.
    """
    chosen = instance or instances(tree)[0]
    context = Context(reporter=Reporter(), tree=tree, instance=chosen)
    check_nesting(source, context.reporter)
    context.reporter.raise_if_any()
    check_algorithm(context)
    problem = check_problem(context)
    check_tile(context)
    check_cases(context)
    check_names(context)
    check_roles(context)
    check_buffers(context, problem)
    check_holders(context, problem)
    regions = check_regions(context)
    apart = check_apart(context, regions)
    together = check_together(context, regions, apart)
    programs = check_blocks(context) if context.algorithm is not None else ()
    tiles = check_tiles(context)
    staggered = is_staggered(context)
    context.reporter.raise_if_any()
    loop = loop_of(tree)
    assert context.algorithm and problem and context.tile and tiles and loop
    return Program(
        name=tree.name.text + chosen.suffix,
        source=source,
        algorithm=context.algorithm,
        target=context.target,
        problem=problem,
        tile=context.tile,
        roles=tuple(context.roles.values()),
        buffers=tuple(context.buffers.values()),
        regions=regions,
        apart=apart,
        together=together,
        role_programs=programs,
        tiles=tiles,
        staggered=staggered,
        loop_symbol=loop.symbol.text,
        loop_span=loop.symbol.span,
        name_span=tree.name.span,
    )
