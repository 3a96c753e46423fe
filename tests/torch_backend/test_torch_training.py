"""DistributedDataParallel over ringroad."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_ddp_under_torchrun(tmp_path):
    """Started as users do it: by torchrun, with processes that import everything themselves."""
    script = tmp_path / "train.py"
    script.write_text(
        "import json, os\nfrom ranks import training\n"
        "digests = training.check_training()\n"
        f"open('{tmp_path}/' + os.environ['RANK'] + '.json', 'w').write(json.dumps(digests))\n"
    )
    path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    digests = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert all(row == digests[0] for row in digests), "the replicas differ in their bits"


def test_ddp_compiled(ranks):
    digests = ranks.run("training.check_training", 2, True)
    assert digests[0] == digests[1]
