"""Commands whose help reads as it was written."""

from typing import Any

from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command without rich mark-up; typer marks what is required for rich in any case, with a backslash."""

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace("\\[", "[")
