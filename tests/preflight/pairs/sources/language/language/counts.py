"""Count the words that follow a context."""


def count_contexts(lines, order):
    counts = {}
    for line in lines:
        words = ["<s>"] * order + line.lower().split()
        for place in range(order, len(words)):
            context = " ".join(words[place - order : place])
            following = counts.setdefault(context, {})
            following[words[place]] = following.get(words[place], 0) + 1
    return counts
