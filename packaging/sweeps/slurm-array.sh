#!/bin/bash
# A sweep as a job array of Slurm: each task does its part of every figure, and leaves one file a
# figure in a folder that all nodes see. A task that was killed is submitted again by its number; a
# file is whole or not there. Parts may end in any order.
#
#   sbatch slurm-array.sh                      all figures in 16 parts, into ./results
#   sbatch --array=7 slurm-array.sh            part 7 once more
#   FIGURES="map tails" SWEEP_OPTIONS="--seed 1001" RESULTS=other sbatch --export=ALL slurm-array.sh
#   PARTS=64 sbatch --export=ALL --array=1-64 slurm-array.sh
#   slurm-merge.sh                             afterwards: one file a figure, or what is missing
#
#SBATCH --job-name=calisto-sweep
#SBATCH --array=1-16
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.out
set -euo pipefail

# Not the count of the array: a part that is run again is an array of one.
parts=${PARTS:-16}
part=${SLURM_ARRAY_TASK_ID:?submit it with sbatch: there is no SLURM_ARRAY_TASK_ID}
results=${RESULTS:-results}
figures=${FIGURES:---all}

# Words: names of figures, and options of `calisto sim`.
# shellcheck disable=SC2086
exec "${CALISTO:-calisto}" sim $figures ${SWEEP_OPTIONS:-} \
    --threads "${SLURM_CPUS_PER_TASK:-1}" --shard "$part/$parts" --output "$results"
