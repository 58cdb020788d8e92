import argparse
import random

from core import fit, load, report

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--tag", default="")
args = parser.parse_args()
rng = random.Random(args.seed)
report(fit(load(args.data), rng, args.lr, args.epochs), args.seed)
