"""What a training needs, before it starts: from the code of its model, or from a probe."""
