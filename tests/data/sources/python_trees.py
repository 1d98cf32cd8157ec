"""Folders of Python files with prose in their docstrings, which serve as libraries."""

PROSE = (
    "Compute the distance between every pair of points in the given array, and return it as a "
    "matrix whose rows follow the order of the input points."
)


NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def sentence(n):
    """Return thirty plain words that differ for each `n`."""
    spelled = " ".join(NUMBERS[int(digit)] for digit in str(n))
    return f"Paragraph {spelled} says what this part of the library is for, in words that a reader of its manual would understand at once, {spelled}."


def module(*blocks):
    text = "\n\n".join(blocks)
    return f'"""{text}\n"""\n'.encode()


def write_tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
