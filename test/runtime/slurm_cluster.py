"""A Slurm of several virtual nodes on this machine, from the programs of the distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from ports import free_ports

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
KillWait=2
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo", "scontrol")
READY = 30  # seconds


class SlurmCluster:
    """`nodes`: the features of each virtual node by its name. Skips the test if Slurm cannot run here."""

    def __init__(self, folder: Path, nodes: Mapping[str, str]) -> None:
        if missing := [name for name in PROGRAMS if not shutil.which(name)]:
            pytest.skip(f"needs Slurm (apt-get install slurmctld slurmd slurm-client munge): no {missing[0]}")
        if os.geteuid() != 0:
            pytest.skip("Slurm of several virtual nodes needs root")
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        ports = free_ports(len(nodes) + 1)
        lines = [
            f"NodeName={name} NodeHostname=localhost Port={port} CPUs=4 Feature={features}"
            for (name, features), port in zip(nodes.items(), ports[1:], strict=True)
        ]
        text = CONFIGURATION.format(port=ports[0], folder=folder) + "\n".join(lines)
        (folder / "slurm.conf").write_text(text + "\nPartitionName=all Nodes=ALL Default=YES State=UP\n")
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        try:
            self._start(nodes)
        except BaseException:
            self.close()
            raise

    def _start(self, nodes: Mapping[str, str]) -> None:
        (self.folder / "state").mkdir()
        key = self.folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._daemon("munged", "-F", "--force", "-S", self.folder / "munge.socket", "--key-file", key, "--pid-file",
                     self.folder / "munge.pid", "--log-file", self.folder / "munge.log", "--seed-file",
                     self.folder / "seed")  # fmt: skip
        self._await(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._daemon("slurmctld", "-D")
        for name in nodes:
            (self.folder / f"spool-{name}").mkdir()
            self._daemon("slurmd", "-D", "-N", name)
        self._await(lambda: self._idle() == len(nodes), "Slurm")

    def _daemon(self, *command: object) -> None:
        with (self.folder / f"{command[0]}.out").open("ab") as log:
            self._processes.append(
                subprocess.Popen([str(word) for word in command], env=self.environment, stdout=log, stderr=log)
            )

    def _idle(self) -> int:
        found = subprocess.run(
            ["sinfo", "-h", "-N", "-t", "idle"], env=self.environment, capture_output=True, text=True
        )  # fmt: skip
        return len(found.stdout.splitlines())

    def _await(self, ready, what: str) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + READY
        while not ready():
            if time.monotonic() > end:
                logs = "".join(path.read_text(errors="replace")[-500:] for path in self.folder.glob("*.out"))
                pytest.skip(f"{what} does not start here: {logs}")
            time.sleep(0.1)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
