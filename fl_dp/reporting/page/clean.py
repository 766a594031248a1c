"""Text from elsewhere, made harmless to look at: no control characters, no turned direction, not too long."""

import unicodedata

LONGEST = 300
_SPACES = "\t\n\r\v\f\u0085\u2028\u2029"
_MARKS = 3  # accents on one letter; more of them would run over the lines above and below
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}


def clean(text: object, longest: int = LONGEST) -> str:
    """`text` with line ends as spaces and every hidden character as its number, such as \\u202e."""
    found: list[str] = []
    marks = 0
    for one in str(text)[: longest + 1]:
        marks = marks + 1 if unicodedata.combining(one) else 0
        if one in _SPACES:
            found.append(" ")
        elif unicodedata.category(one) in _HIDDEN:
            found.append(f"\\u{ord(one):04x}")
        elif marks <= _MARKS:
            found.append(one)
    whole = "".join(found).strip()
    return whole if len(str(text)) <= longest else whole[: longest - 1] + "…"
