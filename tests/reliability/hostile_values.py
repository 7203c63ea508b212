"""Values that nobody expects, and trees of values in which one is replaced or missing."""

import copy

ODD = [None, True, False, -1, 0, 1, 29, 2**31, 2**62, 10**30, 0.5, -1e300, 1e308, "", "knn", "../../x", "\x00\n"]
ODD += ["a" * 100_000, [], [0], [28, 28, 28], [2**40, 2**40], {}, {"a": 1}, [[[[[]]]]], "efficientnet-lite9", "inf"]


def leaves(tree, at=()):
    """Where values are; tables and lists are values, too."""
    yield at
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from leaves(value, (*at, key))


def with_value(tree, at, value):
    tree = copy.deepcopy(tree)
    part = tree
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    return tree


def without_value(tree, at):
    tree = copy.deepcopy(tree)
    part = tree
    for key in at[:-1]:
        part = part[key]
    del part[at[-1]]
    return tree
