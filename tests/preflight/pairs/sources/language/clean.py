"""Print the usable lines of a corpus. Started by the training."""

import sys

with open(sys.argv[1], encoding="utf-8") as stream:
    for line in stream:
        words = [word for word in line.split() if len(word) > 1]
        if words:
            print(" ".join(words))
