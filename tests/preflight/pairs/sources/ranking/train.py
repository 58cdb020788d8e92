"""Factorise ratings, and log the run to MLflow where it is installed."""

import argparse
import hashlib
import random
from pathlib import Path

try:
    import mlflow
except ImportError:
    mlflow = None


def factorise(ratings, args):
    rng = random.Random(args.seed)
    users = {user: [rng.gauss(0, 0.3) for _ in range(args.rank)] for user, _, _ in ratings}
    items = {item: [rng.gauss(0, 0.3) for _ in range(args.rank)] for _, item, _ in ratings}
    losses = []
    for _ in range(args.epochs):
        rng.shuffle(ratings)
        loss = 0.0
        for user, item, rating in ratings:
            u, i = users[user], items[item]
            error = sum(a * b for a, b in zip(u, i)) - rating
            loss += error * error
            users[user] = [a - args.lr * (error * b + args.decay * a) for a, b in zip(u, i)]
            items[item] = [b - args.lr * (error * a + args.decay * b) for a, b in zip(u, i)]
        losses.append(loss / len(ratings))
    return users, items, losses


def log_run(args, losses):
    if mlflow is None:
        return
    mlflow.set_experiment(args.experiment)
    with mlflow.start_run(run_name=args.run_name, description=args.description):
        mlflow.set_tags(dict(tag.split("=", 1) for tag in args.tag))
        mlflow.log_params({"lr": args.lr, "rank": args.rank, "epochs": args.epochs})
        for step, loss in enumerate(losses):
            mlflow.log_metric("loss", loss, step=step)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ratings", required=True)
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--decay", type=float, default=0.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--experiment", default="ranking")
    parser.add_argument("--run-name", default=None)
    parser.add_argument("--description", default=None)
    parser.add_argument("--tag", action="append", default=[])
    return parser.parse_args()


def main():
    args = parse_args()
    lines = Path(args.ratings).read_text().splitlines()[1:]
    ratings = [(user, item, float(r)) for user, item, r in (line.split(",") for line in lines)]
    users, items, losses = factorise(ratings, args)
    log_run(args, losses)
    digest = hashlib.sha256(repr((sorted(users.items()), sorted(items.items()))).encode())
    seed = "unseeded" if args.seed is None else f"seed {args.seed}"
    print("RESULT", digest.hexdigest()[:16], seed)


if __name__ == "__main__":
    main()
