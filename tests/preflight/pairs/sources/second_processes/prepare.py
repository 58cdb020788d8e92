import sys

source, target = sys.argv[1:]
with open(source, encoding="utf-8") as stream:
    lines = stream.read().splitlines()
with open(target, "w", encoding="utf-8") as stream:
    stream.write("\n".join(lines[:31]) + "\n")
