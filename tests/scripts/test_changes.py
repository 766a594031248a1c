"""Which small changes are found in a source, which places are left alone, and that each can be made."""

import ast

import pytest

from scripts.mutation.changes import apply_change, find_changes


@pytest.mark.parametrize(
    ("source", "kind", "becomes"),
    [
        ("x = a + b", "arithmetic", ["x = a - b"]),
        ("x += b", "augmented assignment", ["x -= b"]),
        ("x = a < b", "comparison", ["x = a <= b", "x = a >= b"]),
        ("x = a is b", "comparison", ["x = a is not b"]),
        ("x = a and b", "boolean operator", ["x = a or b"]),
        ("x = not a", "not dropped", ["x = a"]),
        ("x = -a", "minus dropped", ["x = a"]),
        ("x = 3", "constant", ["x = 4", "x = 2"]),
        ("x = 0.5", "constant", ["x = 1.0"]),
        ("x = 0.0", "constant", ["x = 1.0"]),
        ("x = True", "constant", ["x = False"]),
        ("x = b if a else c", "condition negated", ["x = b if not a else c"]),
        ("[b for b in c if b]", "condition negated", ["[b for b in c if not b]"]),
        ("if a:\n    f()", "condition negated", ["if not a:"]),
        ("if not a:\n    f()", "not dropped", ["if a:"]),
        ("while a:\n    f()", "condition negated", ["while not a:"]),
        ("for a in b:\n    break", "break", ["continue"]),
        ("for a in b:\n    continue", "continue", ["break"]),
        ("def f():\n    return a", "return value", ["return None"]),
        ("a == b", "comparison", ["a != b"]),
    ],
)
def test_what_is_changed(source, kind, becomes):
    found = find_changes("a.py", source)
    assert {(one.kind, one.after) for one in found} == {(kind, after) for after in becomes}
    assert all(one.before in source for one in found)


def test_what_a_text_is_compared_with_is_changed_too():
    changes = {(one.kind, one.after) for one in find_changes("a.py", "a == 'on'")}
    assert changes == {("comparison", "a != 'on'"), ("compared text", "a == 'on?'")}


def test_each_part_of_a_chained_comparison_is_changed():
    kinds = [change.after for change in find_changes("a.py", "x = 0 < a <= b")]
    assert {"x = 0 <= a <= b", "x = 0 >= a <= b", "x = 0 < a < b", "x = 0 < a > b"} <= set(kinds)


@pytest.mark.parametrize(
    "source",
    [
        '"""Text 1 + 1."""',
        "import a",
        "__all__ = ['a', 'b']",
        "if TYPE_CHECKING:\n    x = 1 + 1",
        "if __name__ == '__main__':\n    main(1)",
        "raise ValueError(1 + 1)",
        "assert a + 1 == b",
        "x = f'{1 + 1}'",
        "logger.warning('%d', 1 + 1)",
        "Number = int | float",
        "x: Literal[1]",
        "@cache(maxsize=1)\ndef f(x: Literal[1]) -> Literal[1]:\n    pass",
        "x = path / 'name'",
        "zip(a, b, strict=True)",
        "isinstance(a, int | float)",
        "cast(int | None, a)",
    ],
)
def test_what_is_left_alone(source):
    assert find_changes("a.py", source) == []


SOURCE = '''
"""A module."""

LIMIT = 2  # a comment


class Counter:
    def add(self, a, b):
        if a > LIMIT and not b:
            return a - b
        return -(a - b)

    def last(self, items):
        for item in items:
            match item:
                case "end":
                    break
                case _ if item == 3:
                    continue
        return a - b
'''


def test_every_change_can_be_made_and_changes_one_thing():
    changes = find_changes("a.py", SOURCE)
    changed = [apply_change(change, SOURCE) for change in changes]
    assert len(set(changed)) == len({change.key for change in changes}) == len(changes) >= 20
    unchanged = ast.unparse(ast.parse(SOURCE)) + "\n"
    for change, text in zip(changes, changed, strict=True):
        assert text is not None
        assert change.after in text
        before, after = unchanged.splitlines(), text.splitlines()
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_a_change_is_named_by_its_place_and_found_again_after_an_edit_elsewhere():
    changes = find_changes("a.py", SOURCE)
    assert {("", 4), ("Counter.add", 9), ("Counter.last", 19)} <= {(one.place, one.line) for one in changes}
    edited = SOURCE.replace("LIMIT = 2", "LIMIT = 3\nMORE = 1")
    again = find_changes("a.py", edited)[-1]
    assert (again.key, again.line) == (changes[-1].key, changes[-1].line + 1)
    assert apply_change(changes[-1], edited) is not None
    assert apply_change(changes[-1], SOURCE.replace("return a - b", "return a * b")) is None
