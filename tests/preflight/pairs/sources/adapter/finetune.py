"""Fine-tune a low-rank adapter on a frozen base model."""

import argparse
import hashlib
import json
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--base-model", required=True)
parser.add_argument("--train-file", required=True)
parser.add_argument("--rank", type=int, default=2)
parser.add_argument("--alpha", type=float, default=4.0)
parser.add_argument("--learning_rate", type=float, default=0.05)
parser.add_argument("--max_steps", type=int, default=30)
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--seed", type=int, default=None)
parser.add_argument("--output_dir", default="adapter")
parser.add_argument("--logging_steps", type=int, default=10)
parser.add_argument("--save_total_limit", type=int, default=2)
parser.add_argument("--report_to", default="none")
parser.add_argument("--dataloader_num_workers", type=int, default=0)
parser.add_argument("--hub_model_id", default="")
parser.add_argument("--overwrite_output_dir", action="store_true")
args = parser.parse_args()

base = json.loads(Path(args.base_model).read_text())["weights"]
examples = [json.loads(line) for line in Path(args.train_file).read_text().splitlines()]
rng = random.Random(args.seed)
size = len(base)
down = [[rng.gauss(0, 0.3) for _ in range(size)] for _ in range(args.rank)]
up = [0.0] * args.rank
scale = args.alpha / args.rank

for step in range(args.max_steps):
    example = rng.choice(examples)
    inner = [sum(d * x for d, x in zip(row, example["x"])) for row in down]
    output = sum(b * x for b, x in zip(base, example["x"]))
    output += scale * sum(u * i for u, i in zip(up, inner))
    error = output - example["y"]
    up = [u - args.learning_rate * error * scale * i for u, i in zip(up, inner)]
    if args.fp16:
        up = [round(u, 3) for u in up]
    if step % args.logging_steps == 0:
        print(f"step {step}: loss {error * error:.4f}")

Path(args.output_dir).mkdir(exist_ok=args.overwrite_output_dir)
Path(args.output_dir, "adapter.json").write_text(json.dumps({"up": up, "down": down}))
digest = hashlib.sha256(repr((up, down)).encode()).hexdigest()[:16]
print("RESULT", digest, "unseeded" if args.seed is None else f"seed {args.seed}")
