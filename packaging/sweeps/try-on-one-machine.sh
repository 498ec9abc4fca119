#!/bin/bash
# Tries slurm-array.sh and slurm-merge.sh with a Slurm of its own on this machine: a controller and a
# node, 16 tasks, of which one is killed and run again; then the merged files are compared with those
# of a run at once. Needs root and Debian's slurmctld, slurmd, slurm-client and munge; nothing of a
# Slurm that is there already is touched.
#
#   CALISTO=target/release/calisto-lab packaging/sweeps/try-on-one-machine.sh
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
for program in munged slurmctld slurmd sbatch; do
    if ! command -v "$program" >/dev/null; then
        echo "$program is missing: apt-get install slurmctld slurmd slurm-client munge" >&2
        exit 1
    fi
done
CALISTO=$(command -v "${CALISTO:-calisto}")
CALISTO=$(readlink -f "$CALISTO")
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap finish EXIT
chmod 755 "$work"
cd "$work"
mkdir state spool log
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key
host=$(hostname -s)
cat >slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock
SlurmUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/d.pid
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=2048 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf CALISTO PARTS=16 RESULTS=results
export FIGURES="demo-moves spin-tax-work" SWEEP_OPTIONS="--runs 4"
munged --force --foreground --key-file=munge.key --socket="$work/munge.sock" \
    --pid-file="$work/munge.pid" --seed-file="$work/munge.seed" --log-file="$work/log/munge" \
    >log/munge.out 2>&1 &
pids+=($!)
until [ -S munge.sock ]; do sleep 0.2; done
slurmctld -D -f slurm.conf >log/controller 2>&1 &
pids+=($!)
slurmd -D -f slurm.conf >log/node 2>&1 &
pids+=($!)
until sinfo -h -o %t 2>/dev/null | grep -q idle; do sleep 0.5; done

wait_for() {
    while [ -n "$(squeue -h -j "$1" 2>/dev/null)" ]; do sleep 0.5; done
}
job=$(sbatch --parsable --export=ALL "$here/slurm-array.sh")
task=
until [ -n "$task" ]; do task=$(squeue -h -r -j "$job" -t R -o %K | head -1); done
scancel --signal=KILL --full "${job}_$task"
echo "killed task $task of job $job"
wait_for "$job"
if "$here/slurm-merge.sh" part.html >/dev/null 2>missing; then
    echo "task $task was killed, and nothing is missing: it was too quick; try again" >&2
    exit 1
fi
cat missing
grep -q "parts that are missing: $task of 16" missing
grep -q 'class="lacks"' part.html
again=$(sbatch --parsable --export=ALL --array="$task" "$here/slurm-array.sh")
wait_for "$again"
"$here/slurm-merge.sh" whole.html >/dev/null
# shellcheck disable=SC2086
"$CALISTO" sim $FIGURES $SWEEP_OPTIONS --output once >/dev/null
for figure in $FIGURES; do cmp "once/$figure.jsonl" "results/whole/$figure.jsonl"; done
if grep -q 'class="lacks"' whole.html; then
    echo "the page says that something is missing" >&2
    exit 1
fi
echo "16 tasks, one of them killed and run again: the same bytes as of one run"
