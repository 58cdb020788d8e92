#!/bin/sh
#SBATCH --job-name=linear
#SBATCH --time=01:00:00
. ./settings.sh
srun python train.py --data data/a.csv --lr "$RATE" --seed 9
