"""Arithmetic between numbers that stand in the query is done once, here."""

import numpy as np

from quarterdeck.metrics.promql import arithmetic
from quarterdeck.metrics.promql.plan import nodes as pn


def fold_constants(plan: pn.Plan) -> pn.Plan:
    """The plan with every operation between constants replaced by its result.

    >>> from quarterdeck.metrics.promql.syntax.ast import BinaryOp
    >>> fold_constants(pn.ScalarBinary(BinaryOp.MUL, pn.Number(6.0), pn.Number(7.0)))
    Number(value=42.0)
    """
    plan = pn.map_children(plan, fold_constants)
    match plan:
        case pn.ScalarBinary(op=op, lhs=pn.Number(value=lhs), rhs=pn.Number(value=rhs)):
            return pn.Number(float(arithmetic.scalars(op, np.array([lhs]), np.array([rhs]))[0]))
        case pn.ScalarExtreme(lhs=pn.Number(value=lhs), rhs=pn.Number(value=rhs), largest=largest):
            return pn.Number(float(arithmetic.extreme(np.array([lhs]), np.array([rhs]), largest)[0]))
        case pn.Negate(operand=pn.Number(value=value)):
            return pn.Number(-value)
        case _:
            return plan
