"""Reads a file of variables into the environment, as the package python-dotenv does."""

import os


def load_dotenv(path=".env", override=False):
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as stream:
        for line in stream.read().splitlines():
            line = line.strip().removeprefix("export ")
            if line and not line.startswith("#"):
                name, _, value = line.partition("=")
                value = value.strip().strip("\"'")
                if override or name.strip() not in os.environ:
                    os.environ[name.strip()] = value
    return True
