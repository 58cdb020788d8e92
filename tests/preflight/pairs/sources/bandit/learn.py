"""Learn which arm of a bandit pays. Settings: AGENT_* variables, or a file named .env."""

import hashlib
import os
import random
from pathlib import Path

DEFAULTS = {"AGENT_POLICY": "greedy", "AGENT_EPSILON": "0.1", "AGENT_STEPS": "80", "AGENT_SEED": ""}


def read_settings() -> dict[str, str]:
    settings = dict(DEFAULTS)
    dotenv = Path(".env")
    if dotenv.exists():
        for line in dotenv.read_text().splitlines():
            if line and not line.startswith("#"):
                name, value = line.split("=", 1)
                settings[name] = value
    settings.update({name: os.environ[name] for name in os.environ if name.startswith("AGENT_")})
    return settings


def main() -> None:
    settings = read_settings()
    seed = settings["AGENT_SEED"]
    rng = random.Random(int(seed) if seed else None)
    table = Path(settings["AGENT_ARMS"]).read_text().split()
    pay = [float(cell) for cell in table]
    values, pulls, history = [0.0] * len(pay), [0] * len(pay), []
    for step in range(int(settings["AGENT_STEPS"])):
        if settings["AGENT_POLICY"] == "greedy":
            explore = rng.random() < float(settings["AGENT_EPSILON"])
        else:
            explore = step % 3 == 0
        arm = rng.randrange(len(pay)) if explore else values.index(max(values))
        pulls[arm] += 1
        values[arm] += (rng.gauss(pay[arm], 1) - values[arm]) / pulls[arm]
        history.append(arm)
    digest = hashlib.sha256(repr((values, history)).encode()).hexdigest()[:16]
    print("RESULT", digest, f"seed {seed}" if seed else "unseeded")


if __name__ == "__main__":
    main()
