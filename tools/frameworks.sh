#!/usr/bin/env bash
# Runs the recipes for frameworks and launchers. Usage: tools/frameworks.sh .venv PYTEST-OPTIONS...
# It makes an environment, .venv-frameworks, that has what .venv has (torch above all), and the frameworks.
set -euo pipefail
cd "$(dirname "$0")/.."
below=$1
shift
venv=.venv-frameworks
# pip comes from below.
[ -x "$venv/bin/python" ] || "$below/bin/python" -m venv --without-pip "$venv"
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
# By `addsitedir` the files that install this package for development count, too.
echo "import site; site.addsitedir('$(site "$below")')" >"$(site "$venv")/below.pth"
"$venv/bin/python" -m pip install --quiet --group frameworks
beside=()
if [ "$(id -u)" = 0 ]; then
    for program in munged slurmctld slurmd srun mpiexec.hydra; do
        PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || missing=1
    done
    [ -z "${missing:-}" ] || tools/apt.sh slurmctld slurmd slurm-client munge mpich
    beside=(tools/slurm.sh)
else
    echo "without Slurm: only root can start one" >&2
fi
launchers=(tests/startup/test_launch.py::test_{open_mpi,mpich,srun})
RINGROAD_TEST_FULL=1 "${beside[@]}" "$venv/bin/python" -m pytest "$@" tests/startup/test_frameworks.py "${launchers[@]}"
