#!/usr/bin/env bash
# Runs a command beside a Slurm of its own, which has this machine as its only host. Usage: tools/slurm.sh COMMAND...
# Needs root, and slurmctld, slurmd, srun and munged (Debian: slurmctld slurmd slurm-client munge). It uses no file of
# an installed Slurm, and leaves nothing behind.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: tools/slurm.sh COMMAND..." >&2; exit 2; }
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd srun; do
    command -v "$program" >/dev/null || { echo "$program is missing" >&2; exit 1; }
done
folder=$(mktemp -d)
daemons=()
stop() {
    scancel --quiet --user "$USER" 2>/dev/null || true
    # slurmd first: it reports to slurmctld, and both speak through munged.
    for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
        kill "${daemons[i]}" 2>/dev/null || continue
        wait "${daemons[i]}" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT
export USER=${USER:-$(id -un)}

port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
node=$(hostname -s)
mkdir "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/key"
chmod 600 "$folder/key"
cat >"$folder/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(port)
SlurmdPort=$(port)
SlurmUser=$USER
SlurmdUser=$USER
AuthType=auth/munge
AuthInfo=socket=$folder/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/linear
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF=$folder/slurm.conf

munged --foreground --force --key-file "$folder/key" --socket "$folder/munge" --pid-file "$folder/munged.pid" \
    --seed-file "$folder/munged.seed" &>"$folder/munged.log" &
daemons+=($!)
until [ -S "$folder/munge" ]; do kill -0 "${daemons[0]}"; sleep 0.1; done
slurmctld -D &>"$folder/slurmctld.log" &
daemons+=($!)
slurmd -D &>"$folder/slurmd.log" &
daemons+=($!)
for _ in $(seq 300); do
    [ "$(sinfo --noheader --format %T 2>/dev/null)" = idle ] && ready=1 && break
    sleep 0.1
done
[ "${ready:-}" ] || { echo "Slurm did not start:" >&2; tail -n 20 "$folder"/*.log >&2; exit 1; }
"$@"
