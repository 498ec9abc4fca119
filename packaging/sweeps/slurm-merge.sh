#!/bin/bash
# Says which parts of a sweep are missing; if none is, puts them together and makes the page. What
# was set for slurm-array.sh is to be set here, too.
#
#   slurm-merge.sh [PAGE]
set -euo pipefail

parts=${PARTS:-16}
results=${RESULTS:-results}
calisto=${CALISTO:-calisto}
page=${1:-report.html}

figures=${FIGURES:-}
if [ -z "$figures" ]; then
    figures=$("$calisto" sim --list | awk 'NR > 1 { print $1 }')
fi
missing=()
for part in $(seq "$parts"); do
    for figure in $figures; do
        if [ ! -e "$results/$figure.shard-$part-of-$parts.jsonl" ]; then
            missing+=("$part")
            break
        fi
    done
done
if [ ${#missing[@]} -gt 0 ]; then
    list=$(IFS=,; echo "${missing[*]}")
    echo "parts that are missing: $list of $parts" >&2
    echo "run them again with: sbatch --array=$list slurm-array.sh" >&2
    # What is there is on the page all the same, and the page says what is not.
    "$calisto" report "$results" --output "$page" || true
    exit 1
fi
whole=$results/whole
mkdir -p "$whole"
for figure in $figures; do
    rm -f "$whole/$figure".shard-*.jsonl
    for part in $(seq "$parts"); do
        ln -s "../$figure.shard-$part-of-$parts.jsonl" "$whole/"
    done
    "$calisto" sim "$figure" --merge --output "$whole" >"$whole/$figure.txt"
    rm -f "$whole/$figure".shard-*.jsonl
done
"$calisto" report "$whole" --output "$page"
