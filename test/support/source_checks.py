"""The common parts of the scripts that check sources: their command line, and made-up trees to prove that they can fail."""

import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def tree(files):
    """A folder with `files` (path -> text) for as long as the block lasts; `lib` and `tools` are there."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("lib", "tools"):
            (root / name).mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        yield root


def main(usage, check, self_test, clean):
    """Runs `check(root)`, or `self_test()` for --self-test; prints the problems, or `clean`, and exits."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    problems = self_test() if sys.argv[1] == "--self-test" else check(Path(sys.argv[1]))
    print("\n".join(problems) or clean)
    sys.exit(1 if problems else 0)
