"""Small trainings on the CPU, as scripts. Each one appends its true steps to the file in ``TRUTH``:
a line of "µs step" per step, "µs end" at a regular end. One unit of work is 15 ms of CPU time.
"""

from __future__ import annotations

_HEAD = """
import os, random, sys, time
_truth = os.open(os.environ["TRUTH"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
LIMIT = int(os.environ.get("STEPS", "100000"))

def note(text):
    os.write(_truth, f"{time.monotonic_ns() // 1000} {text}\\n".encode())

def work(units=1):
    # a fixed CPU time, so that other programs on a busy machine change it little
    total, end = 0, time.thread_time() + units * 0.015
    while time.thread_time() < end:
        total += sum(i * i % 7 for i in range(500))
    return total

def steps():
    for step in range(1, LIMIT + 1):
        yield step
        note(step)
    note("end")
"""

TRAININGS: dict[str, str] = {
    "warm-up": """
time.sleep(0.5)
for step in steps():
    work(5 if step <= 12 else 1)
    print(f"step {step}/{LIMIT} loss {1 / step:.4f}")
""",
    "evaluation": """
for step in steps():
    work()
    print(f"step {step}/{LIMIT} loss {1 / step:.4f}")
    if step % 50 == 0:
        work(25)
        print(f"val_loss {1 / step:.4f}")
""",
    "stalls": """
for step in steps():
    if step % 12 == 0:
        time.sleep(0.2)
    work()
    print(f"iter {step}: loss {1 / step:.4f}")
""",
    "bar": """
EPOCH = 100
for step in steps():
    work()
    done = (step - 1) % EPOCH + 1
    sys.stderr.write(f"\\r {done:3d}%|{'#' * (done // 10)}| {done}/{EPOCH} [00:01<00:02, 9it/s]")
    sys.stderr.flush()
    if done == EPOCH:
        for part in range(1, 6):
            work(4)
            sys.stderr.write(f"\\rValidating: {part * 20}%|##| {part}/5 [00:01<00:02, 9it/s]")
""",
    "silent": """
for step in steps():
    work(10)
    time.sleep(0.15)
""",
    "lines": """
for step in steps():
    work()
    print(f"loss {1 / step:.5f} accuracy {1 - 1 / (step + 1):.4f}")
""",
    "reports": """
import labcarbon_collect
with labcarbon_collect.track(name="reports") as run:
    for step in steps():
        work()
        run.log(step, loss=1 / step)
""",
    "children": """
import multiprocessing
def serve(queue):
    while True:
        work(0.5)
        queue.put(1)
queue = multiprocessing.Queue(2)
workers = [multiprocessing.Process(target=serve, args=(queue,), daemon=True) for _ in range(2)]
for worker in workers:
    worker.start()
for step in steps():
    queue.get()
    work()
    print(f"[{step}/{LIMIT}] loss {1 / step:.4f}")
""",
    "rare lines": """
for step in steps():
    work()
    if step % 10 == 0:
        print(f"Epoch [1/1], Step [{step}/{LIMIT}], Loss: {1 / step:.4f}")
""",
    "epochs": """
for step in steps():
    work(10)
    print(f"Epoch {step}/{LIMIT} loss {1 / step:.4f} val_loss {1 / step:.4f}")
""",
    "noise": """
chance = random.Random(7)
for step in steps():
    work(chance.lognormvariate(0, 0.7))
    print(f"global_step={step} loss={1 / step:.4f}")
""",
    "first epoch": """
EPOCH = 60
for step in steps():
    work(1.3 if step <= EPOCH else 1)
    done = (step - 1) % EPOCH + 1
    epoch = (step - 1) // EPOCH
    sys.stderr.write(f"\\rEpoch {epoch}: {done}%|#| {done}/{EPOCH} [00:01<00:02, 9.0it/s, v=3]")
    sys.stderr.flush()
""",
}


ENDINGS: dict[str, str] = {
    "ignores SIGINT": """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
for step in steps():
    work()
    print(f"step {step}")
""",
    "ignores SIGTERM": """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in steps():
    work()
    print(f"step {step}")
""",
    "writes files": """
home = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(home, "model.bin"), "wb") as file:
    file.write(b"weights")
with open("scratch.bin", "wb") as file:
    file.write(b"temporary")
for step in steps():
    work()
    print(f"step {step}")
""",
    "ends": """
for step in range(1, 11):
    work()
    print(f"step {step}/10")
""",
    "crashes": """
work()
raise ValueError("bad shape")
""",
    "forks away": """
import subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note(f"away {os.getpid()}")
        while True:
            time.sleep(0.1)
    os._exit(0)
for step in steps():
    work()
    print(f"step {step}")
""",
    "relative path": """
open("table.csv").read()
""",
}


def script(name: str) -> str:
    """Return the source of a training."""
    return _HEAD + {**TRAININGS, **ENDINGS}[name]
