"""The blocks of code of a page, in order, each with the language that says what is done with it.

An indented block is commands, as is `bash`; `python` goes on in the page's own names; `yaml` are lines of a party's policy.
`text` is shown alone, and is all that a page may show without its being run.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (
    ROOT / "README.md",
    DOCS / "tutorial.md",
    *(
        DOCS / "howto" / f"{name}.md"
        for name in re.findall(r"\]\((\w[\w-]*)\.md\)", (DOCS / "howto" / "index.md").read_text("utf-8"))
    ),
)
"""README, the tutorial, and the how-tos in the order of their index."""
COMMANDS, PYTHON, POLICY, SHOWN = "bash", "python", "yaml", "text"
BLOCK = re.compile(r"^```(\w*)\n((?:.*\n)*?)```$|(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)", re.M)
PIPELINE = DOCS / "howto" / "vertical-training.md"
GOES_ON = re.compile(r"\]\((?:howto/)?vertical-training\.md#the-pipeline\)")
"""The link by which a page says that its Python goes on from that page's pipeline."""


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str
    line: int

    @property
    def commands(self) -> list[str]:
        """One command a line, without comments; a backslash joins lines."""
        return [
            line
            for each in self.text.replace("\\\n", " ").splitlines()
            if (line := re.sub(r"(^|\s)#.*", "", each).strip())
        ]


def blocks(page: Path) -> list[Block]:
    """All of a page; those of the pipeline's page first where it says that it goes on from there."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        language, body = (COMMANDS, textwrap.dedent(match[3])) if match[3] else (match[1], match[2])
        found.append(Block(page, language, body, text.count("\n", 0, match.start()) + 1))
    first = next((match.start() for match in re.finditer(r"^```python", text, re.M)), None)
    if first is not None and GOES_ON.search(text, 0, first):
        found = [each for each in blocks(PIPELINE) if each.language == PYTHON] + found
    return found
