#!/bin/bash
# Usage: sweep.sh TABLE RATE...
set -e
table=$1
shift
for rate in "$@"; do
  for seed in ${SEEDS:-1 2}; do
    python train.py --data "$table" --lr "$rate" --seed "$seed" $EXTRA
  done
done
