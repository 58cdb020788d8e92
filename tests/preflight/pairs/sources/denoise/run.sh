#!/bin/sh
# Start a training with the settings of the lab.
set -eu
export DATA="${DATA:-signals/a.txt}"
export SEED="${SEED:-1}"
export LR=0.05
export OUTPUT_DIR="out/$(hostname)"
exec python train.py
