#!/usr/bin/env python3
"""Checks what README.md, CHANGELOG.md and docs/*.md say of files: exits with 1 and names what is wrong.

- A link leads to a file that is there and, with a #anchor, to a heading of it.
- A path in `backticks` that begins with a folder of the repository is there. {a,b} names several.
- A walk, a table with the columns `file` and `read`, names no file twice; the functions of `read`,
  in backticks, stand in the row's file; and the line "N files." below it counts them.
- README.md has at most 200 lines.
"""

import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BRACES = re.compile(r"\{([^{}]*)\}")
PATH = re.compile(r"[\w.@-]+(/[\w.{},@-]+)+/?")
PLACEHOLDER = re.compile(r"\b(FILE|FOLDER|NAME|PRESET)\b|FILE_")
README_LINES = 200


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = LINK.sub(lambda link: link.group(0)[1:].split("]")[0], heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {slug(heading) for heading in headings}


def spelled_out(path):
    """a/b.{h,cpp} is a/b.h and a/b.cpp."""
    parts = BRACES.split(path)
    choices = [part.split(",") if odd % 2 else [part] for odd, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def wrong_links(page, text):
    for target in LINK.findall(text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"links to {target}, which is not there"
        elif anchor and anchor not in anchors(file):
            yield f"links to {target}; {file.name} has no such heading"


def wrong_paths(text, folders):
    for code in CODE.findall(text):
        for word in code.split():
            if not PATH.fullmatch(word) or word.split("/")[0] not in folders or PLACEHOLDER.search(word):
                continue
            for path in spelled_out(word):
                if not (ROOT / path).exists():
                    yield f"names `{path}`, which is not there"


def wrong_walks(text):
    """Tables whose header has the columns file and read."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        columns = [cell.strip() for cell in line.strip("| ").split("|")]
        if not line.startswith("|") or not {"file", "read"} <= set(columns):
            continue
        seen = set()
        end = start + 2
        while end < len(lines) and lines[end].startswith("|"):
            cells = dict(zip(columns, (cell.strip() for cell in lines[end].strip("| ").split(" | "))))
            end += 1
            file = cells["file"].strip("`")
            if file in seen:
                yield f"walk: comes back to {file}"
            seen.add(file)
            if not (ROOT / file).is_file():
                yield f"walk: {file} is not there"
                continue
            source = (ROOT / file).read_text()
            for function in CODE.findall(cells["read"]):
                name = re.split(r"::|\.", function.removesuffix("()"))[-1]
                if not re.search(rf"\b{re.escape(name)}\b", source):
                    yield f"walk: {file} has no {function}"
        told = re.match(r"(\d+) files", "".join(lines[end + 1 : end + 2]))
        if not told or int(told.group(1)) != len(seen):
            yield f"walk at line {start + 1}: has {len(seen)} files; say '{len(seen)} files.' below it"


def main():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build", ".deps"}
    wrong = []
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        text = FENCE.sub("", page.read_text())
        for mistake in itertools.chain(wrong_links(page, text), wrong_paths(text, folders),
                                       wrong_walks(text)):
            wrong.append(f"{page.relative_to(ROOT)}: {mistake}")
    lines = len((ROOT / "README.md").read_text().splitlines())
    if lines > README_LINES:
        wrong.append(f"README.md: {lines} lines, more than {README_LINES}")
    print("\n".join(wrong) if wrong else f"{len(pages)} pages, nothing wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
