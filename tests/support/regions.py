"""A cell's region as a release writes it."""

import json
from typing import Any

import numpy as np

from shoal.core.cells.tree import Tree


def region_of(tree: Tree, node: int) -> Any:
    """The region of one node, parsed."""
    return json.loads(b'{"cell":"' + tree.cells_json(np.array([node]))[0] + b"}")["region"]
