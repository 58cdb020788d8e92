"""Prepares the table by one script, then trains by another."""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
parser = argparse.ArgumentParser()
parser.add_argument("--table", default="data/a.csv")
parser.add_argument("--method", default="ridge")
parser.add_argument("--lr", default="0.1")
parser.add_argument("--seed", default="1")
parser.add_argument("--log-dir", default="logs")
args = parser.parse_args()
subprocess.run([sys.executable, str(HERE / "prepare.py"), args.table, "ready.csv"], check=True)
script = HERE / "methods" / f"{args.method}.py"
subprocess.run([sys.executable, str(script), "ready.csv", args.lr, args.seed], check=True)
