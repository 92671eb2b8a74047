"""LAMMPS on Slurm: an MPI program as a parameter sweep on single cores, as a wider job, and over two nodes.

LAMMPS computes how atoms move. Here it melts argon, or rather its model, the Lennard-Jones fluid, at one density and
several temperatures, and says for each the pressure and how fast atoms diffuse. All numbers are in Lennard-Jones units:
a temperature of 1 is 120 K, a pressure of 1 is 42 MPa.

This is a program for the login node of a cluster with Slurm. `Executor(launch=...)` listens, and submits a *block* to
Slurm once a job wants a worker: here a batch job of two nodes, with a worker on each that offers two cores. The block
ends when it has been idle for a minute, or when the program ends. Change `cluster` to what your site has: a queue, an
account, the modules of LAMMPS and Open MPI. On the command line the same is::

    grainlike head start --detach
    grainlike up slurm --resources cores=2 --nodes 2 --max 2 --walltime 0:10:00 --idle 0:01:00

and `connect()` in the program, instead of `Executor(launch=...)`.

1. The sweep: a job of one core for each temperature. As many run at once as there are cores, and Slurm's queue is
   waited in once, not six times.
2. A wider job: almost three times as many atoms, on two cores of one node. `mpirun` finds the job's cores in its
   environment, and starts all its ranks on them. Slurm, which would give it all nodes of the block, is not asked.
3. A gang: `Nodes(2, each=Cores(1))` has a core on each of two nodes at the same time, or waits until it can.
   `GRAINLIKE_HOSTFILE` names the two hosts, and `GRAINLIKE_RANKFILE` the core of each rank. Open MPI reaches the other
   node by `ssh`, which has to work without a password between the nodes of a job.

Each rank notes the processors that it may use before it becomes LAMMPS, and the job compares them with its cores.
Where Slurm binds nobody to cores (its `TaskPlugin` is `none`) and a node is not ours alone, workers cannot know which
cores are theirs: then they count them, nothing is bound, and the last column is `False`.

It prints::

    temperature  atoms  ranks  nodes  pressure  diffusion  on its cores
           0.90    500      1      1      1.22      0.043          True
           1.20    500      1      1      2.91      0.065          True
           1.50    500      1      1      4.42      0.089          True
           1.80    500      1      1      5.78      0.098          True
           2.10    500      1      1      7.23      0.126          True
           2.40    500      1      1      8.38      0.134          True
           1.50   1372      2      1      4.35      0.089          True
           1.50   1372      2      2      4.35      0.089          True
    the pressure rises by 4.8 for each unit of temperature
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grainlike import GVAR, Cores, Executor, Nodes, delayed, gather, run
from grainlike.launch import Slurm

cluster = Slurm(
    "cores=2",  # of each worker
    walltime="0:10:00",
    nodes=2,  # in one block
    idle="0:01:00",
    # queue="standard", account="p17", setup=["module load openmpi lammps"],
    # Of this program's environment workers have what is named here: these are for containers, and for busy machines.
    env=["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle"],
)

MELT = """
units lj
lattice fcc 0.8442
region box block 0 ${n} 0 ${n} 0 ${n}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create $(2*v_t) 87287
pair_style lj/cut 2.5
pair_modify tail yes
pair_coeff 1 1 1.0 1.0
fix bath all nvt temp ${t} ${t} 0.5
run 500  # melt, and come to the temperature

reset_timestep 0
compute moved all msd com yes
fix average all ave/time 10 200 2000 c_thermo_press
thermo_style custom step temp press c_moved[4]
run 2000
print "result: pressure $(f_average) diffusion $(c_moved[4]/(6*2000*dt))"
"""

# Each rank says where it may run, and becomes LAMMPS, which writes its log to a file.
RANK = ["sh", "-c", 'grep Cpus_allowed_list /proc/self/status; exec "$@"', "rank", "lmp", "-screen", "none"]


@dataclass
class Point:
    """What one run of LAMMPS found, and where its ranks were."""

    temperature: float
    atoms: int
    ranks: int
    nodes: int
    pressure: float
    diffusion: float
    placed: bool


@delayed
def melt(temperature: float, cells: int) -> Point:
    """Run LAMMPS on all cores of this job, wherever they are, with a rank on each."""
    nodes = GVAR.job.nodes  # of a gang; none for a job on one node
    cores = [core for node in nodes for core in node.allocation.cores] or list(GVAR.res.cores)
    mpirun = ["mpirun", "-n", str(len(cores))]
    if nodes:
        mpirun += ["--hostfile", os.environ["GRAINLIKE_HOSTFILE"], "--rankfile", os.environ["GRAINLIKE_RANKFILE"]]

    folder = GVAR.job.scratch
    Path(folder, "in.melt").write_text(MELT)
    said = ["-in", f"{folder}/in.melt", "-log", f"{folder}/log", "-var", "t", str(temperature), "-var", "n", str(cells)]
    # Of two runs side by side, one that ends may remove a directory of Open MPI's that the other has just found there.
    own = {**os.environ, "TMPDIR": folder}
    program = subprocess.run(
        [*mpirun, *RANK, *said], cwd=folder, env=own, check=True, stdout=subprocess.PIPE, text=True
    )

    found = re.search(r"^result: pressure (\S+) diffusion (\S+)", Path(folder, "log").read_text(), re.MULTILINE)
    assert found, "LAMMPS printed no result"
    pressure, diffusion = map(float, found.groups())
    places = [processors(line.split()[1]) for line in program.stdout.splitlines()]
    # The rank file binds each rank of a gang to a core of its own; the ranks on one node share the cores of the job.
    expected = sorted([core] for core in cores) if nodes else [sorted(cores)] * len(cores)
    placed = sorted(places) == expected
    return Point(temperature, 4 * cells**3, len(cores), len(nodes) or 1, pressure, diffusion, placed)


def processors(text: str) -> list[int]:
    """The ids in a list as Linux writes it: `0-2,5`."""
    ends = [part.partition("-") for part in text.split(",")]
    return [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]


async def main() -> None:
    async with Executor(launch=cluster):
        sweep = await gather((melt @ Cores(1))(t, 5) for t in (0.9, 1.2, 1.5, 1.8, 2.1, 2.4))
        wide = await (melt @ Cores(2))(1.5, 7)
        gang = await (melt @ Nodes(2, each=Cores(1)))(1.5, 7)

    print("temperature  atoms  ranks  nodes  pressure  diffusion  on its cores")
    for p in [*sweep, wide, gang]:
        row = f"{p.temperature:11.2f} {p.atoms:6} {p.ranks:6} {p.nodes:6} {p.pressure:9.2f} {p.diffusion:10.3f}"
        print(row, f"{p.placed!s:>13}")

    first, last = sweep[0], sweep[-1]
    slope = (last.pressure - first.pressure) / (last.temperature - first.temperature)
    print(f"the pressure rises by {slope:.1f} for each unit of temperature")


if __name__ == "__main__":
    run(main, local=None)
